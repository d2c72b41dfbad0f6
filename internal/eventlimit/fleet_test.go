package eventlimit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/eventlimit"
)

// limited returns the operator's limits in front of the server's recorder, on a clock that stands still.
func (s *server) limited() *rig {
	out := &sink{published: map[string]int{}, suppressed: map[string]int{}}
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &rig{eventlimit.New(s.recorder, eventlimit.Options{Clock: c, Metrics: out}), out, c}
}

// TestAThousandProxiesFailAtTheSameTime: each has its condition, and the API server a bounded number of Events. With them come
// a Warning about the cause and one for another reason.
func TestAThousandProxiesFailAtTheSameTime(t *testing.T) {
	t.Parallel()
	const proxies = 1000
	s := newServer(t)
	r := s.limited()
	reconciler := s.reconciler(r.Recorder, interceptor.Funcs{})
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range proxies {
		group.Go(func() error {
			p, err := s.create(ctx, fmt.Sprintf("p%04d", i))
			if err != nil {
				return err
			}
			_, err = reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
			return err
		})
	}
	must(t, group.Wait())
	cause := health("cloud-of-" + s.ns)
	r.tell(cause, warning, "TargetNotReady")

	burst := eventlimit.Defaults().Reason.Burst
	if r.suppressed[warning] != proxies-burst || r.suppressed[normal] > 0 {
		t.Errorf("suppressed: %v, want %d Warnings", r.suppressed, proxies-burst)
	}
	s.until("the Events at the server", func() bool { return len(s.events()) >= burst })
	s.until("the one about the cause", func() bool {
		var list eventsv1.EventList
		must(t, s.c.List(t.Context(), &list, client.InNamespace("default")))
		for _, e := range list.Items {
			if e.Regarding.Name == cause.Name && e.Reason == "TargetNotReady" {
				return true
			}
		}
		return false
	})
	total := 0
	for _, about := range s.events() {
		total += len(about)
	}
	if got := int(s.requests.Load()); total != burst || got != burst+1 {
		t.Errorf("%d Events about Proxies with %d requests, want %d with %d", total, got, burst, burst+1)
	}
	var list v1alpha1.ProxyList
	must(t, s.c.List(t.Context(), &list, client.InNamespace(s.ns)))
	for i := range list.Items {
		if !failed(&list.Items[i]) {
			t.Errorf("%s: %+v", list.Items[i].Name, list.Items[i].Status)
		}
	}
}

func failed(p *v1alpha1.Proxy) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned)
	return c != nil && c.Reason == v1alpha1.ReasonProviderNotConfigured
}

// TestOneProxyThatFlaps is a thousand turns of Ready: two Events, which client-go makes a series of each, and hardly a request
// more.
func TestOneProxyThatFlaps(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := s.limited()
	p, err := s.create(t.Context(), "flapping")
	must(t, err)
	for range 1000 {
		r.tell(p, warning, "NotReady")
		r.tell(p, normal, "Ready")
		r.pass(time.Second)
	}
	const through = 10 + 999/60
	if r.suppressed[warning] != 1000-through || r.suppressed[normal] != 1000-through {
		t.Errorf("suppressed: %v, want %d of each", r.suppressed, 1000-through)
	}
	s.until("both as series", func() bool {
		all := s.events()["flapping"]
		return len(all) == 2 && all[0].Series != nil && all[1].Series != nil
	})
	if got := s.requests.Load(); got > 8 { // a series may need a second try while its first Event is on its way
		t.Errorf("%d requests", got)
	}
}

// TestEventsFollowTheWrite holds the write of one Proxy's status, and has that of another refused.
func TestEventsFollowTheWrite(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	reached, written := make(chan struct{}), make(chan struct{})
	r := s.reconciler(s.limited().Recorder, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			switch obj.GetName() {
			case "refused":
				return errors.New("not this time")
			case "held":
				close(reached)
				<-written
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	reconcile := func(name string) error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.ns, Name: name}})
		return err
	}
	for _, name := range []string{"held", "refused", "plain"} {
		_, err := s.create(t.Context(), name)
		must(t, err)
	}
	done := make(chan error, 1)
	go func() { done <- reconcile("held") }()
	<-reached
	if reconcile("refused") == nil {
		t.Error("the refused write went unnoticed")
	}
	must(t, reconcile("plain"))
	s.until("the Event of the one whose status is written", func() bool { return len(s.events()["plain"]) == 1 })
	if got := s.events(); len(got["held"]) > 0 || len(got["refused"]) > 0 {
		t.Errorf("Events before the write: %v", got)
	}
	close(written)
	must(t, <-done)
	s.until("the Event after the write", func() bool { return len(s.events()["held"]) == 1 })
	p := &v1alpha1.Proxy{}
	must(t, s.c.Get(t.Context(), client.ObjectKey{Namespace: s.ns, Name: "held"}, p))
	if !failed(p) {
		t.Errorf("with the Event the status is %+v", p.Status)
	}
}
