package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
)

// patience is how long something may take that happens at once, on a machine with much else to do.
const patience = 30 * time.Second

// listener hears what a watch tells.
type listener struct {
	t    *testing.T
	w    *world
	stop context.CancelFunc
	over chan struct{} // closed when Watch has returned

	mu    sync.Mutex
	heard []provider.Change
	next  int // where the next search begins
}

// listen watches until the test ends at the latest.
func (w *world) listen(t *testing.T, p *kubernetes.Provider) *listener {
	ctx, stop := context.WithCancel(t.Context())
	l := &listener{t: t, w: w, stop: stop, over: make(chan struct{})}
	go func() {
		defer close(l.over)
		p.Watch(ctx, func(c provider.Change) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.heard = append(l.heard, c)
		})
	}()
	t.Cleanup(l.end)
	return l
}

func (l *listener) end() {
	l.t.Helper()
	l.stop()
	select {
	case <-l.over:
	case <-time.After(patience):
		l.t.Error("Watch did not return")
	}
}

// hears waits, while the kubelet works, for a change of id as wanted that comes after the one that was last waited for.
func (l *listener) hears(what, id string, wanted func(provider.Change) bool) provider.Change {
	l.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); must(l.w.t, l.w.wait(l.t.Context())) {
		l.mu.Lock()
		for ; l.next < len(l.heard); l.next++ {
			if c := l.heard[l.next]; c.Instance.ID == id && wanted(c) {
				l.next++
				l.mu.Unlock()
				return c
			}
		}
		l.mu.Unlock()
	}
	l.t.Fatalf("%s: not told of %s; told was\n%s", what, id, l)
	return provider.Change{}
}

// String is everything that was heard.
func (l *listener) String() string {
	var out strings.Builder
	for _, c := range l.all() {
		fmt.Fprintf(&out, "%s %s gone %v, attempt %d, %s\n", c.Instance.ID, c.Instance.State, c.Gone, c.Instance.Marks.Attempt, c.Instance.Identity)
	}
	return out.String()
}

func (l *listener) all() []provider.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]provider.Change(nil), l.heard...)
}

// again lets the next search begin at the first change.
func (l *listener) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = 0
}

func is(s provider.State) func(provider.Change) bool {
	return func(c provider.Change) bool { return !c.Gone && c.Instance.State == s }
}

func isGone(c provider.Change) bool { return c.Gone }

// watches and listsPods tell the two kinds of request apart.
func watches(r *http.Request) bool {
	return on(http.MethodGet, "pods")(r) && r.URL.Query().Has("watch")
}
func listsPods(r *http.Request) bool {
	return on(http.MethodGet, "pods")(r) && !r.URL.Query().Has("watch")
}

func watchesIn(namespace string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return watches(r) && strings.Contains(r.URL.Path, "/namespaces/"+namespace+"/")
	}
}

// cuttable makes the answers to requests that match such as can be cut off. through receives one value for each.
func (w *wire) cuttable(match func(*http.Request) bool) (cut func(), through <-chan struct{}) {
	var mu sync.Mutex
	var bodies []io.Closer
	passed := make(chan struct{}, 1000)
	w.add(&fault{match: match, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			bodies = append(bodies, resp.Body)
			passed <- struct{}{}
		}
		return resp, err
	}})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range bodies {
			_ = b.Close()
		}
	}, passed
}

// await waits for something that happens soon.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: in vain", what)
	}
	return v
}

// first puts a fault before those that are there.
func (w *wire) first(f *fault) (remove func()) {
	remove = w.add(f)
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.faults) - 1
	w.faults = append([]*fault{w.faults[last]}, w.faults[:last]...)
	return remove
}

// say answers with a body.
func say(code int, contentType, body string) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}

// remake puts a Pod like pod into the place that it has left, with some changes.
func (w *world) remake(pod *corev1.Pod, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	next := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations,
	}, Spec: pod.Spec}
	next.Spec.NodeName = ""
	for _, f := range change {
		f(next)
	}
	made, err := w.kube.CoreV1().Pods(w.namespace).Create(context.Background(), next, metav1.CreateOptions{})
	must(w.t, err)
	return made
}
