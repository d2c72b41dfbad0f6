package kubernetes_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// TestWatchTellsWhatIsThereFirst, however many pages that takes, and in whatever namespaces the entry is for.
func TestWatchTellsWhatIsThereFirst(t *testing.T) {
	w := newT(t)
	p := w.provider()
	var refs []provider.Ref
	for range 7 { // three pages
		ref, _ := w.created(p, w.guarded())
		refs = append(refs, ref)
	}
	for _, tc := range []struct{ name, scope string }{
		{"several namespaces", ""},
		{"one namespace", "namespace: " + w.namespace + "\n"},
		{"every namespace", "# in every namespace\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := w.extra
			w.extra += tc.scope
			defer func() { w.extra = before }()
			l := w.listen(t, w.provider())
			for _, ref := range refs {
				want, err := p.Get(t.Context(), ref)
				must(w.t, err)
				l.again()
				if got := l.hears("the first list", ref.ID, func(provider.Change) bool { return true }); got.Gone || got.Instance != *want {
					t.Errorf("told was %+v, Get says %+v", got, *want)
				}
			}
		})
	}
}

// TestWatchTellsTheLifeOfAPod in the order in which it happens, with the marks of its attempt to the end.
func TestWatchTellsTheLifeOfAPod(t *testing.T) {
	w := newT(t)
	p := w.provider()
	l := w.listen(t, p)
	evict := func(id string) {
		w.status(nameIn(id), corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory."})
	}
	for n, tc := range []struct {
		name   string
		evict  bool
		remove bool // by somebody who does not wait
	}{{"deleted", false, false}, {"evicted and deleted", true, false}, {"removed at once", false, true}} {
		req := w.guarded()
		ref := w.ref(req, int64(n+1))
		must(w.t, p.Create(t.Context(), req, ref))
		heard := []provider.Change{
			l.hears(tc.name, ref.ID, is(provider.StateProvisioning)),
			l.hears(tc.name, ref.ID, is(provider.StateRunning)),
		}
		identity := heard[0].Instance.Identity
		if up := heard[1].Instance; up.IP == "" || up.Port != req.Port || identity == "" {
			t.Errorf("%s: running as %+v", tc.name, up)
		}
		if tc.evict {
			evict(ref.ID)
			heard = append(heard, l.hears(tc.name, ref.ID, is(provider.StateTerminated)))
		}
		if tc.remove {
			w.remove(nameIn(ref.ID), w.pod(ref.ID).UID)
		} else {
			must(w.t, p.Delete(t.Context(), ref))
			heard = append(heard, l.hears(tc.name, ref.ID, is(provider.StateDeleting)))
		}
		heard = append(heard, l.hears(tc.name, ref.ID, isGone))
		for _, c := range heard {
			want := owner.MarksFor(req, ref)
			if c.Instance.Marks != want || c.Instance.Identity != identity {
				t.Errorf("%s: told of %+v, want %+v", tc.name, c.Instance, want)
			}
		}
	}
}

// TestAnotherPodOfTheSameName is another instance: the one before is gone first, whether the watch saw it happen or not.
func TestAnotherPodOfTheSameName(t *testing.T) {
	for _, connected := range []bool{true, false} {
		t.Run(fmt.Sprintf("connected %v", connected), func(t *testing.T) {
			w := newT(t)
			w.extra += "allowClients: [10.0.0.0/8]\n"
			p := w.provider()
			ref, _ := w.created(p, w.request())
			cut, _ := w.wire.cuttable(watchesIn(w.namespace))
			l := w.listen(t, p)
			old := l.hears("before", ref.ID, is(provider.StateRunning)).Instance
			restore := func() {}
			if !connected {
				restore = w.wire.first(&fault{match: on(http.MethodGet, "pods"), do: refuse(http.StatusServiceUnavailable, "", "down", nil)})
				cut()
			}
			pod := w.pod(ref.ID)
			w.remove(pod.Name, pod.UID)
			made := w.remake(pod, func(p *corev1.Pod) { p.Labels[provider.LabelAttempt] = "2" })
			restore()
			gone := l.hears("the old Pod", ref.ID, isGone)
			if gone.Instance.Identity != old.Identity || gone.Instance.Marks != old.Marks {
				t.Errorf("gone is %+v, want %+v", gone.Instance, old)
			}
			is := l.hears("the new Pod", ref.ID, func(provider.Change) bool { return true })
			if is.Gone || is.Instance.Identity != string(made.UID) || is.Instance.Marks.Attempt != 2 {
				t.Errorf("then told was %+v", is)
			}
		})
	}
}

// TestAWatchBeginsWhereItsListEnded: what happens in between is not lost.
func TestAWatchBeginsWhereItsListEnded(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ended, _ := w.created(p, w.guarded())
	reached, release := w.wire.hold(watchesIn(w.namespace))
	l := w.listen(t, p)
	l.hears("the first list", ended.ID, is(provider.StateRunning))
	await(t, "the watch", reached)
	w.remove(nameIn(ended.ID), w.pod(ended.ID).UID)
	begun, _ := w.created(p, w.guarded())
	release()
	l.hears("meanwhile", ended.ID, isGone)
	l.again()
	l.hears("meanwhile", begun.ID, is(provider.StateRunning))
}

// TestAWatchAsksForNoMoreThanItNeeds: its own Pods, and for a time that ends, so that a list mends what was missed.
func TestAWatchAsksForNoMoreThanItNeeds(t *testing.T) {
	w := newT(t)
	asked := make(chan url.Values, 10)
	w.wire.add(&fault{match: watches, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		asked <- r.URL.Query()
		return next.RoundTrip(r)
	}})
	w.listen(t, w.provider())
	q := await(t, "the watch", asked)
	seconds, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	if seconds < 60 || seconds > 3600 || !strings.Contains(q.Get("labelSelector"), provider.LabelInstallation+"="+owner.Installation) {
		t.Errorf("asked was %v", q)
	}
}
