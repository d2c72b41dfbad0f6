package kubernetes_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const expired = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}`

// TestABrokenWatchComesBack and tells what happened in the meantime, however it is broken and refused at first.
func TestABrokenWatchComesBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// refusal befalls the next watch; nil is none.
		refusal func(*http.Request, http.RoundTripper) (*http.Response, error)
	}{
		{"the connection was cut", nil},
		{"410", refuse(http.StatusGone, "Expired", "too old resource version", nil)},
		{"410 as an event", say(http.StatusOK, "application/json", `{"type":"ERROR","object":`+expired+"}\n")},
		{"401", refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil)},
		{"403", refuse(http.StatusForbidden, "Forbidden", "you cannot watch this", nil)},
		{"429", refuse(http.StatusTooManyRequests, "", "too many requests", http.Header{"Retry-After": {"1"}})},
		{"500", refuse(http.StatusInternalServerError, "", "etcdserver: request timed out", nil)},
		{"a page", say(http.StatusOK, "text/html", "<html>log in</html>")},
		{"an event of something else", say(http.StatusOK, "application/json",
			`{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"namespace":"x","name":"y"}}}`+"\n")},
		{"a bookmark that nobody asked for and the end", say(http.StatusOK, "application/json",
			`{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1"}}}`+"\n")},
		{"half an event", say(http.StatusOK, "application/json", `{"type":"DELETED","object":{"kind":"Pod","meta`)},
		{"a clean end", say(http.StatusOK, "application/json", "")},
		{"no answer", func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errLost }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newT(t)
			p := w.provider()
			evicted, _ := w.created(p, w.guarded())
			removed, _ := w.created(p, w.guarded())
			cut, through := w.wire.cuttable(watchesIn(w.namespace))
			l := w.listen(t, p)
			for _, ref := range []provider.Ref{evicted, removed} {
				l.again()
				l.hears("before", ref.ID, is(provider.StateRunning))
			}
			await(t, "the watch", through)
			restore := w.wire.first(&fault{match: on(http.MethodGet, "pods"), do: refuse(http.StatusServiceUnavailable, "", "down", nil)})
			cut()
			w.remove(nameIn(removed.ID), w.pod(removed.ID).UID)
			w.status(nameIn(evicted.ID), corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"})
			var refused atomic.Int32
			if tc.refusal != nil {
				w.wire.first(&fault{match: watchesIn(w.namespace), once: true, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
					refused.Add(1)
					return tc.refusal(r, next)
				}})
			}
			before := len(l.all())
			restore()
			l.hears("meanwhile", removed.ID, isGone)
			l.again()
			l.hears("meanwhile", evicted.ID, is(provider.StateTerminated))
			await(t, "the watch again", through)
			if want := tc.refusal != nil; (refused.Load() == 1) != want {
				t.Errorf("refused %d times", refused.Load())
			}
			for _, c := range l.all()[before:] {
				if c.Instance.ID == evicted.ID && c.Gone {
					t.Errorf("told to be gone is what is there: %+v", c.Instance)
				}
			}
			w.remove(nameIn(evicted.ID), w.pod(evicted.ID).UID)
			l.hears("afterwards", evicted.ID, isGone)
			for _, c := range l.all()[before:] {
				if c.Instance.ID != evicted.ID && c.Instance.ID != removed.ID || c.Gone && c.Instance.Marks.UID == "" {
					t.Errorf("told was %+v", c)
				}
			}
		})
	}
}

// TestAnUnreadableNamespaceHidesNoOther, and is told of as soon as it can be read.
func TestAnUnreadableNamespaceHidesNoOther(t *testing.T) {
	w, closed := newT(t), newT(t)
	w.extra += fmt.Sprintf("namespaces: [%s, %s]\n", closed.namespace, w.namespace)
	own, _ := w.created(w.provider(), w.guarded())
	other, _ := closed.created(closed.provider(), closed.guarded())
	restore := w.wire.add(&fault{
		match: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/namespaces/"+closed.namespace+"/") },
		do:    refuse(http.StatusForbidden, "Forbidden", "you cannot read this", nil),
	})
	l := w.listen(t, w.provider())
	l.hears("the readable one", own.ID, is(provider.StateRunning))
	w.status(nameIn(own.ID), corev1.PodStatus{Phase: corev1.PodFailed})
	l.hears("the readable one", own.ID, is(provider.StateTerminated))
	for _, c := range l.all() {
		if c.Instance.ID == other.ID {
			t.Errorf("told was %+v", c)
		}
	}
	restore()
	l.hears("the other one", other.ID, is(provider.StateRunning))
}

// TestAWatchThatIsEndedAtOnceIsNotAskedForAllTheTime: a server in trouble must not be kept there.
func TestAWatchThatIsEndedAtOnceIsNotAskedForAllTheTime(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*http.Request, http.RoundTripper) (*http.Response, error){
		"with an error": refuse(http.StatusForbidden, "Forbidden", "you cannot watch this", nil),
		"cleanly":       say(http.StatusOK, "application/json", ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newT(t)
			asked := make(chan time.Time, 1000)
			w.wire.add(&fault{match: watchesIn(w.namespace), do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
				asked <- time.Now()
				return end(r, next)
			}})
			w.listen(t, w.provider())
			first := await(t, "the watch", asked)
			second := await(t, "again", asked).Sub(first)
			if third := await(t, "and again", asked).Sub(first); second < 400*time.Millisecond || third < 1400*time.Millisecond {
				t.Errorf("asked again after %s and after %s", second, third)
			}
		})
	}
}
