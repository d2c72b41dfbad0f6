package gc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestTheInstanceOfADeadUIDIsDeleted(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.orphan("lost")
	if r := x.twice(); len(r.Deleted) != 1 || r.Verdicts[gc.Orphaned] != 1 {
		t.Errorf("report: %+v", r)
	}
	x.there()
	if n := len(x.metrics.swept); n != 2 || !x.metrics.swept[1].Equal(x.clock.Now()) {
		t.Errorf("sweeps ended at %v, want two, the last one now", x.metrics.swept)
	}
	if got := x.metrics.take(); !slices.Equal(got, []string{"deleted cloud"}) {
		t.Errorf("metrics: %q", got)
	}
}

func TestALiveUIDIsNeverACandidate(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	p := x.proxy("alive")
	id := x.create(p, "")
	stray := x.dead("alive")
	stray.UID, stray.Attempt = string(p.UID), 7
	other := x.place("zone-b", stray)
	for range 3 {
		if r := x.twice(); r.Verdicts[gc.Live] != 2 || len(r.Deleted) != 0 {
			t.Errorf("report: %+v", r)
		}
	}
	x.there(id, other)
}

func TestAProxyBeingDeletedIsLive(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	p := x.proxy("leaving", func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.FinalizerInstance} })
	id := x.create(p, "")
	x.lose(p)
	if r := x.twice(); r.Verdicts[gc.Live] != 1 {
		t.Errorf("report: %+v", r)
	}
	x.there(id)

	must(t, x.client.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	if p.DeletionTimestamp.IsZero() {
		t.Fatal("the object was not being deleted")
	}
	p.Finalizers = nil
	must(t, x.client.Update(t.Context(), p))
	x.twice()
	x.there()
}

// In between, a Proxy appears with its instance. Whoever read the Proxies first would take it for dead.
func TestTheCloudIsListedBeforeTheProxies(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	var born *v1alpha1.Proxy
	x.backend.OnCall(func(op string, _ provider.Ref) providertest.Fault {
		if op == providertest.OpList && born == nil {
			born = x.proxy("born")
			x.create(born, "")
		}
		return providertest.Fault{}
	})
	if r := x.sweep(); r.Verdicts[gc.Live] != 1 || len(r.Verdicts) != 1 {
		t.Errorf("verdicts %v, want one live", r.Verdicts)
	}
}

func TestEveryPageOfTheProxiesIsRead(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	var ids []string
	for i := range 5 {
		ids = append(ids, x.create(x.proxy(fmt.Sprintf("page-%d", i)), ""))
	}
	pages := x.smallPages(func(int) error { return nil })
	if r := x.twice(); r.Verdicts[gc.Live] != 5 {
		t.Errorf("verdicts %v, want five live", r.Verdicts)
	}
	if *pages < 6 {
		t.Errorf("%d pages in two sweeps; want several each", *pages)
	}
	x.there(ids...)
}

func TestAnUnreadableProxyListSkipsTheSweep(t *testing.T) {
	t.Parallel()
	broken := errors.New("the API server is away")
	cases := map[string]func(x *rig){
		"first page":  func(x *rig) { x.smallPages(func(int) error { return broken }) },
		"second page": func(x *rig) { x.smallPages(func(n int) error { return map[bool]error{true: broken}[n == 2] }) },
		"truncated": func(x *rig) {
			x.live.list = func(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
				left := int64(3)
				list.(*metav1.PartialObjectMetadataList).RemainingItemCount = &left
				return nil
			}
		},
		"without UIDs": func(x *rig) {
			x.live.list = func(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
				list.(*metav1.PartialObjectMetadataList).Items = make([]metav1.PartialObjectMetadata, 1)
				return nil
			}
		},
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, providertest.BackendOptions{})
			for i := range 3 {
				x.proxy(fmt.Sprintf("other-%d", i))
			}
			id := x.orphan("lost")
			x.grow()
			x.sweep()
			spoil(x)
			for range 3 {
				if r := x.sweepAll(); r.Skipped != gc.SkipProxies || len(r.Providers) != 0 {
					t.Errorf("report: %+v", r)
				}
			}
			x.there(id)
			if n := len(x.metrics.swept); n != 1 {
				t.Errorf("%d sweeps count, want the one that was not skipped", n)
			}
			if got := x.metrics.take(); len(got) != 3 || got[0] != `failed "" proxies` {
				t.Errorf("metrics: %q", got)
			}
			x.live.list = nil
			if r := x.sweep(); r.Verdicts[gc.Fresh] != 1 {
				t.Errorf("after the gap: %v, want it to count anew", r.Verdicts)
			}
			x.sweep()
			x.there()
		})
	}
}

// smallPages makes the API server answer in pages of two and lets fail decide about each page of a list, counted from
// 1. It returns the number of pages asked for.
func (x *rig) smallPages(fail func(page int) error) *int {
	total, page := new(int), 0
	x.live.list = func(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		o.ApplyOptions(opts)
		if o.Continue == "" {
			page = 0
		}
		if o.Limit < 2 {
			return errors.New("the list has no limit")
		}
		*total++
		page++
		if err := fail(page); err != nil {
			return err
		}
		// Of this rig's namespace only: what the tests beside it store must not change the number of pages.
		return x.live.Reader.List(ctx, list, append(opts, client.Limit(2), client.InNamespace(x.ns))...)
	}
	return total
}
