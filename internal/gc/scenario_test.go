package gc_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// wide lists whatever stands on the backend, as a provider that does not filter would: the collector must not rely on
// its providers for what is foreign.
type wide struct {
	provider.Provider
	lists []provider.Provider
}

func (w wide) ListByTag(ctx ctxT) (all provider.Listing, err error) {
	for _, p := range w.lists {
		l, listErr := p.ListByTag(ctx)
		all.Instances, err = append(all.Instances, l.Instances...), errors.Join(err, listErr)
	}
	return all, err
}

// Two more operators work on the backend: one of another installation in this cluster, and one that by mistake has this
// one's installation ID in another cluster. This API server knows none of their Proxies.
func TestForeignInstancesSurviveEverything(t *testing.T) {
	t.Parallel()
	owners := map[string]provider.Owner{
		"mine":               mine(),
		"other-installation": {Installation: "theirs", Cluster: "here"},
		"other-cluster":      {Installation: "mine", Cluster: "there"},
	}
	for _, filtered := range []bool{true, false} {
		t.Run(fmt.Sprintf("filtered=%v", filtered), func(t *testing.T) {
			x := newRig(t, providertest.BackendOptions{})
			if !filtered {
				w := wide{Provider: x.provider(mine())}
				for _, o := range owners {
					w.lists = append(w.lists, x.provider(o))
				}
				x.entry(cloud, w)
			}
			var foreign []string
			for name, o := range owners {
				p := x.proxy(name)
				id := x.createAs(o, p, "")
				x.lose(p)
				if name != "mine" {
					foreign = append(foreign, id)
				}
			}
			x.twice()
			x.twice()
			x.there(foreign...)
		})
	}
}

func TestAHumansInstanceUnderOurNameSurvives(t *testing.T) {
	free := zones(8)
	x := newRig(t, providertest.BackendOptions{Zones: free})
	p := x.proxy("lost")
	x.lose(p)
	whole := provider.Marks{UID: string(p.UID), Namespace: x.ns, Name: "lost", Installation: "mine", Cluster: "here", Spec: spec, Attempt: 1}.ToMap()
	ids := []string{idIn(free[7], string(p.UID))}
	x.backend.Place(ids[0], map[string]string{"made-by": "hand"}, 22)
	for i, missing := range []string{
		provider.LabelManaged, provider.LabelUID, provider.LabelNamespace, provider.LabelName, provider.LabelInstallation,
		provider.LabelCluster, provider.LabelAttempt,
	} {
		labels := maps.Clone(whole)
		delete(labels, missing)
		id := idIn(free[i], string(p.UID))
		x.backend.Place(id, labels, 22)
		ids = append(ids, id)
	}
	x.twice()
	x.twice()
	x.there(ids...)
}

// A person may write any marks, but only those that this operator could have written make an instance an orphan. Every
// instance here has the name that goes with its UID.
func TestMarksThatNobodyWroteAreNotCollected(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	var ids []string
	for name, odd := range map[string]func(*provider.Marks){
		"uid": func(m *provider.Marks) { m.UID = "to be filled in" }, "half-a-uid": func(m *provider.Marks) { m.UID = m.UID[:18] },
		"no-spec": func(m *provider.Marks) { m.Spec = "" }, "spec": func(m *provider.Marks) { m.Spec = "whatever" },
		"namespace": func(m *provider.Marks) { m.Namespace = "no namespace" }, "name": func(m *provider.Marks) { m.Name = "no/name" },
	} {
		m := x.dead(name)
		odd(&m)
		ids = append(ids, x.place("zone-a", m))
	}
	newer := x.dead("newer")
	newer.Spec = "v2-whatever-a-newer-operator-writes"
	x.place("zone-a", newer)
	if r := x.twice(); r.Verdicts[gc.Foreign] != len(ids) || len(r.Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
	x.there(ids...)
}

// A machine cloned by hand carries all the marks of the original, which lives, is an orphan, or is long gone.
func TestAClonedMachineSurvives(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	alive, lost := x.proxy("alive"), x.proxy("lost")
	kept := x.create(alive, "")
	x.create(lost, "")
	var clones []string
	for _, l := range x.backend.Instances() {
		for _, id := range []string{l.ID + "-1", "zones/zone-b/instances/copy-of-" + l.Marks.Name} {
			x.backend.Place(id, l.Marks.ToMap(), 3128)
			clones = append(clones, id)
		}
	}
	x.lose(lost)
	if r := x.twice(); r.Verdicts[gc.Foreign] != len(clones) || r.Verdicts[gc.Live] != 1 || len(r.Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
	x.lose(alive)
	if r := x.twice(); !slices.Equal(idsOf(r.Deleted), []string{kept}) {
		t.Errorf("report: %+v", r)
	}
	x.twice()
	x.there(clones...)
}

// What a status says is not asked: neither does a copied one protect another's instance, nor does it cost one.
func TestACopiedStatusChangesNothing(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	record := func(p *v1alpha1.Proxy, id string) {
		p.Status.ProviderID, p.Status.Instance = id, &v1alpha1.InstanceRecord{Attempt: 1, RequestedAt: metav1.NewMicroTime(x.clock.Now())}
		must(t, x.client.Status().Update(t.Context(), p))
	}
	alive, lost := x.proxy("alive"), x.proxy("lost")
	kept, orphan := x.create(alive, ""), x.create(lost, "")
	record(alive, kept)
	record(lost, orphan)
	copied := x.proxy("copied")
	record(copied, orphan)
	x.lose(lost)
	x.twice()
	x.there(kept)
	record(copied, kept)
	x.lose(copied)
	x.twice()
	x.there(kept)
}

func TestSkippedCleanupIsMadeUpFor(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	p := x.proxy("left", func(p *v1alpha1.Proxy) { p.Finalizers = []string{v1alpha1.FinalizerInstance} })
	x.create(p, "")
	x.lose(p)
	must(t, x.client.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	p.Finalizers = nil
	must(t, x.client.Update(t.Context(), p))
	x.twice()
	x.there()
}

// An External Proxy has no instance, but its UID lives all the same.
func TestEveryKindOfProxyIsLive(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	p := x.proxy("external", func(p *v1alpha1.Proxy) {
		p.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "192.0.2.1", Port: 3128}}
	})
	m := x.dead("external")
	m.UID = string(p.UID)
	id := x.place("zone-a", m)
	x.twice()
	x.there(id)
}

// What is left of a broken creation or deletion is an orphan like any other.
func TestWhatIsLeftOfAnInstanceIsCollected(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.backend.LoseMain(x.orphan("disk"))
	x.backend.Terminate(x.orphan("terminated"))
	x.backend.Stop(x.orphan("stopped"), "no money")
	alive := x.create(x.proxy("alive"), "")
	x.twice()
	x.there(alive)
}

// An instance in a state that nobody knows is held, never destroyed; it goes once the state is one again.
func TestAnOrphanInAnUnknownStateIsHeld(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	confused := x.orphan("confused")
	x.backend.Confuse(confused)
	alive := x.create(x.proxy("alive"), "")
	x.twice()
	x.there(alive, confused)
	x.backend.Start(confused)
	x.twice()
	x.there(alive)
}

// Two entries that share a backend see the same instances; neither harms the other's living ones.
func TestTwoEntriesOnOneBackend(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.entries = append(x.entries, registry.Handle{Name: "twin", Provider: x.provider(mine())})
	alive := x.create(x.proxy("alive"), "")
	x.orphan("lost")
	x.grow()
	x.sweepAll()
	r := x.sweepAll()
	if n := len(r.Of(cloud).Failed) + len(r.Of("twin").Failed); n != 0 {
		t.Errorf("report: %+v", r)
	}
	x.there(alive)
}

func TestProvidersThatFailInEveryWay(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	good := providertest.NewFake("good", mine(), provider.Window{Clock: x.clock})
	good.Backend().Place(idIn("zone-a", uidOf("o")), x.dead("o").ToMap(), 3128)
	x.entries = []registry.Handle{{Name: "good", Provider: good}}
	for i, class := range []error{
		provider.ErrTransient, provider.ErrPermanent, provider.ErrDenied, provider.ErrQuotaExceeded, provider.ErrConflict, provider.ErrNotFound, errors.New("bare"),
	} {
		f := providertest.NewFake(fmt.Sprintf("bad-%d", i), mine(), provider.Window{Clock: x.clock})
		f.ListFunc = func(ctxT) (provider.Listing, error) {
			// An answer that comes with an error is no answer.
			return provider.Listing{Instances: []provider.Instance{{ID: idIn("zone-a", uidOf("x")), Identity: "y", Marks: x.dead("x"), CreatedAt: x.clock.Now().Add(-1e15)}}}, class
		}
		f.DeleteFunc = func(_ ctxT, ref provider.Ref) error { t.Errorf("deleted %+v", ref); return nil }
		x.entry(fmt.Sprintf("bad-%d", i), f)
	}
	x.grow()
	x.sweepAll()
	r := x.sweepAll()
	for _, p := range r.Providers {
		if bad := p.Name != "good"; bad != (p.Err != nil) || bad && len(p.Deleted) > 0 {
			t.Errorf("report: %+v", p)
		}
	}
	if n := len(r.Of("good").Deleted); n != 1 {
		t.Errorf("%d deleted at the good one", n)
	}
	if r := x.sweepAll(); r.Skipped != gc.Skip("") {
		t.Errorf("skipped: %s", r.Skipped)
	}
}
