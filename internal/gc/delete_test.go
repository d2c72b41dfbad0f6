package gc_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

type ctxT = context.Context

var proxies = schema.GroupResource{Group: "crawl.example.com", Resource: "proxies"}

func notFound(name string) error { return apierrors.NewNotFound(proxies, name) }

func TestTheProxyIsReadAgainBeforeTheDelete(t *testing.T) {
	t.Parallel()
	answer := func(err error) func(*rig, client.ObjectKey, client.Object, string) error {
		return func(*rig, client.ObjectKey, client.Object, string) error { return err }
	}
	uid := func(of func(old string) string) func(*rig, client.ObjectKey, client.Object, string) error {
		return func(_ *rig, _ client.ObjectKey, obj client.Object, old string) error {
			obj.(interface{ SetUID(types.UID) }).SetUID(types.UID(of(old)))
			return nil
		}
	}
	cases := map[string]struct {
		get     func(x *rig, key client.ObjectKey, obj client.Object, old string) error
		deleted bool
	}{
		"absent":                {answer(notFound("lost")), true},
		"taken over":            {uid(func(string) string { return "another" }), true},
		"there after all":       {uid(func(old string) string { return old }), false},
		"without a UID":         {uid(func(string) string { return "" }), false},
		"absence of another":    {answer(notFound("found")), false},
		"resource not served":   {answer(apierrors.NewGenericServerResponse(http.StatusNotFound, "get", proxies, "lost", "404 page not found", 0, true)), false},
		"forbidden":             {answer(apierrors.NewForbidden(proxies, "lost", errors.New("no"))), false},
		"unavailable":           {answer(apierrors.NewServiceUnavailable("later")), false},
		"connection broken":     {answer(errors.New("EOF")), false},
		"deadline":              {answer(context.DeadlineExceeded), false},
		"internal server error": {answer(apierrors.NewInternalError(errors.New("etcd"))), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, providertest.BackendOptions{})
			id := x.orphan("lost")
			old := x.backend.Instances()[0].Marks.UID
			read := 0
			x.live.get = func(_ ctxT, key client.ObjectKey, obj client.Object) error {
				if read++; key.Namespace != x.ns || key.Name != "lost" {
					t.Errorf("read %s, want what the marks name", key)
				}
				return tc.get(x, key, obj, old)
			}
			r := x.twice()
			if read != 1 {
				t.Errorf("read %d times, want once", read)
			}
			if tc.deleted {
				x.there()
				return
			}
			x.there(id)
			if len(r.Failed)+len(r.Revived) != 1 || len(r.Deleted) != 0 {
				t.Errorf("report: %+v", r)
			}
			if got := x.metrics.take(); len(r.Failed) == 1 && !slices.Equal(got, []string{`failed "cloud" read`}) {
				t.Errorf("metrics: %q", got)
			}
		})
	}
}

// The list is behind: it does not have a Proxy that exists.
func TestAProxyThatOnlyTheLastLookFindsKeepsItsInstance(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	id := x.create(x.proxy("alive"), "")
	x.live.list = func(context.Context, client.ObjectList, ...client.ListOption) error { return nil }
	if r := x.twice(); !slices.Equal(idsOf(r.Revived), []string{id}) {
		t.Errorf("report: %+v", r)
	}
	x.there(id)
}

func TestAnotherProxyOfTheNameDoesNotSaveTheOldInstance(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.orphan("reused")
	id := x.create(x.proxy("reused"), "zone-b")
	x.twice()
	x.there(id)
}

func TestAProxyCreatedAnewBetweenListAndDelete(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.orphan("again")
	x.grow()
	x.sweep()
	var id string
	x.live.get = func(ctx ctxT, key client.ObjectKey, obj client.Object) error {
		if id == "" {
			id = x.create(x.proxy("again"), "")
		}
		return x.client.Get(ctx, key, obj)
	}
	if r := x.sweep(); len(r.Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
	x.there(id)
}

// After the list another machine with the very same marks takes the place.
func TestOnlyTheListedIdentityIsDeleted(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	m := x.dead("lost")
	id := x.place("zone-a", m)
	x.grow()
	x.sweep()
	x.live.get = func(ctx ctxT, key client.ObjectKey, obj client.Object) error {
		x.backend.Vanish(id)
		x.place("zone-a", m)
		return x.client.Get(ctx, key, obj)
	}
	if r := x.sweep(); len(r.Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
	x.there(id)
}

func TestDeleteNamesWhatWasListed(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	fake := x.fake()
	m := x.dead("lost")
	m.Attempt = 4
	id := x.place("zone-b", m)
	identity := x.backend.Instances()[0].Identity
	x.twice()
	want := provider.Ref{ID: id, UID: m.UID, Attempt: 4, Identity: identity}
	if calls := fake.Calls("delete"); len(calls) != 1 || calls[0].Ref != want {
		t.Errorf("calls %+v, want one of %+v", calls, want)
	}
}

func TestADeletionInFlightIsNotSubmittedAgain(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{DeleteDelay: time.Hour})
	id := x.orphan("lost")
	x.twice()
	for range 3 {
		if r := x.sweep(); r.Verdicts[gc.Leaving] != 1 {
			t.Errorf("verdicts %v", r.Verdicts)
		}
	}
	if n := x.backend.Calls(providertest.OpDelete); n != 1 {
		t.Errorf("deleted %d times", n)
	}
	x.there(id)
	x.clock.Step(time.Hour)
	x.there()
}

func TestAFailedDeletionIsTriedAgain(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	fake := x.fake()
	id := x.orphan("lost")
	for _, class := range []error{provider.ErrTransient, provider.ErrPermanent, provider.ErrDenied, provider.ErrConflict} {
		fake.Next("delete", provider.Wrap(class, "delete", cloud, id, nil))
	}
	x.grow()
	x.sweep()
	for range 4 {
		if r := x.sweep(); len(r.Failed) != 1 {
			t.Errorf("report: %+v", r)
		}
		x.there(id)
	}
	if got := x.metrics.take(); len(got) != 4 || got[0] != `failed "cloud" delete` {
		t.Errorf("metrics: %q", got)
	}
	x.sweep()
	x.there()
}

// targeted lets each zone fail on its own.
type targeted struct{ provider.Provider }

func (targeted) Target(ref provider.Ref) string { return ref.ID[:len("zones/zone-a")] }

func TestABrokenTargetIsTriedOnceASweep(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.entry(cloud, targeted{x.provider(mine())})
	for _, name := range []string{"a1", "a2", "a3"} {
		x.place("zone-a", x.dead(name))
	}
	x.place("zone-b", x.dead("b1"))
	keep := x.create(x.proxy("alive"), "zone-b")
	x.backend.OnCall(func(op string, ref provider.Ref) providertest.Fault {
		if op == providertest.OpDelete && targeted.Target(targeted{}, ref) == "zones/zone-a" {
			return providertest.Fault{Err: errors.New("no route")}
		}
		return providertest.Fault{}
	})
	if r := x.twice(); len(r.Failed) != 3 || len(r.Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
	if n := x.backend.Calls(providertest.OpDelete); n != 2 {
		t.Errorf("%d deletions were sent, want one for each zone", n)
	}
	x.backend.OnCall(nil)
	x.sweep()
	x.there(keep)
}
