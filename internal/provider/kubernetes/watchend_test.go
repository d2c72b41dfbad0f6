package kubernetes_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// TestAWatchEndsWithItsContext, whatever it waits for, and leaves nothing behind.
func TestAWatchEndsWithItsContext(t *testing.T) {
	w := newT(t)
	w.extra += "namespace: " + w.namespace + "\n"
	for _, tc := range []struct {
		name  string
		match func(*http.Request) bool
		down  bool
		holds bool
		times int
	}{
		{name: "for a change", match: watches, times: 1},
		{name: "for a list", match: listsPods, holds: true, times: 1},
		{name: "for a watch to begin", match: watches, holds: true, times: 1},
		{name: "for the next try", match: watches, down: true, times: 4}, // which is some seconds away then
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := w.provider()
			if _, err := p.ListByTag(t.Context()); err != nil { // so that the connection is there already
				t.Fatal(err)
			}
			ignored := goleak.IgnoreCurrent()
			reached := make(chan struct{}, 100)
			remove := w.wire.add(&fault{match: tc.match, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				reached <- struct{}{}
				switch {
				case tc.down:
					return nil, errLost
				case !tc.holds:
					return next.RoundTrip(r)
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			}})
			defer remove()
			l := w.listen(t, p)
			for range tc.times {
				await(t, "the request", reached)
			}
			began := time.Now()
			l.end()
			if d := time.Since(began); d > 2*time.Second {
				t.Errorf("it ended after %s", d)
			}
			goleak.VerifyNone(t, ignored)
		})
	}
}

// openBody is an answer that does not end by itself.
type openBody struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func (b *openBody) Read(into []byte) (int, error) {
	if n, err := b.Reader.Read(into); err == nil {
		return n, nil
	}
	<-b.closed
	return 0, io.ErrUnexpectedEOF
}

func (b *openBody) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// TestAWatchThatMakesNoSenseIsLeft by the operator, where the server does not end it, and closed; the next one is listened to.
func TestAWatchThatMakesNoSenseIsLeft(t *testing.T) {
	for name, event := range map[string]string{
		"an error":       `{"type":"ERROR","object":` + expired + "}\n",
		"another object": `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"x","name":"y"}}}` + "\n",
		"no event":       `{"type":"ADDED","object":` + "[]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t)
			body := &openBody{Reader: strings.NewReader(event), closed: make(chan struct{})}
			defer func() { _ = body.Close() }()
			w.wire.add(&fault{match: watchesIn(w.namespace), once: true, do: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
			}})
			_, through := w.wire.cuttable(watchesIn(w.namespace))
			w.listen(t, w.provider())
			await(t, "the end of the watch", body.closed)
			await(t, "the next one", through)
		})
	}
}

// TestTheEndOfAPodThatWasNeverSeenIsToldToo: somebody may know it from before.
func TestTheEndOfAPodThatWasNeverSeenIsToldToo(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	pod := w.pod(ref.ID)
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	pod.Name, pod.UID = provider.NameFromUID("x"), "y"
	object, err := json.Marshal(pod)
	must(t0(t), err)
	w.wire.add(&fault{match: watchesIn(w.namespace), once: true, do: say(http.StatusOK, "application/json", `{"type":"DELETED","object":`+string(object)+"}\n")})
	l := w.listen(t, p)
	if c := l.hears("its end", w.namespace+"/"+pod.Name, isGone); c.Instance.Identity != "y" || c.Instance.Marks.UID != ref.UID {
		t.Errorf("told was %+v", c)
	}
}
