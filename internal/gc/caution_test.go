package gc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func TestScopesReportedUnreadAreLeftAloneAndTheRestIsProcessed(t *testing.T) {
	hosts := zones(20)
	x := newRig(t, providertest.BackendOptions{Zones: hosts})
	var orphans, kept []string
	for i, host := range hosts {
		kept = append(kept, x.create(x.proxy(fmt.Sprintf("alive-%d", i)), host))
		if i < 8 {
			p := x.proxy(fmt.Sprintf("lost-%d", i))
			orphans = append(orphans, x.create(p, host))
			x.lose(p)
		}
	}
	x.grow()
	x.sweep()
	x.backend.SetUnread(hosts[3], true)
	r := x.sweep()
	want := slices.Delete(slices.Clone(orphans), 3, 4)
	if !slices.Equal(idsOf(r.Deleted), want) {
		t.Errorf("deleted %v, want %v", idsOf(r.Deleted), want)
	}
	x.there(append(kept, orphans[3])...)

	x.backend.SetUnread(hosts[3], false)
	if r := x.sweep(); r.Verdicts[gc.Fresh] != 1 {
		t.Errorf("after the gap: %v, want it to count anew", r.Verdicts)
	}
	x.sweep()
	x.there(kept...)
}

// A list that broke off may show a part of a scope which it reports as unread.
func TestWhatIsListedOfAnUnreadScopeIsLeftAlone(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	id := x.orphan("lost")
	x.grow()
	x.sweep()
	fake := x.fake()
	fake.ListFunc = func(ctx ctxT) (provider.Listing, error) {
		l, err := x.provider(mine()).ListByTag(ctx)
		l.Unread = []string{"zone-a"}
		return l, err
	}
	if r := x.sweep(); r.Verdicts[gc.Unread] != 1 {
		t.Errorf("verdicts %v", r.Verdicts)
	}
	x.there(id)
}

func TestAListErrorSkipsThatProviderOnly(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	id := x.orphan("lost")
	other := providertest.NewFake("other", mine(), provider.Window{Clock: x.clock})
	x.entry("other", other)
	other.Backend().Place(idIn("zone-a", uidOf("o")), x.dead("o").ToMap(), 3128)
	x.grow()
	x.sweep()
	other.Next("list", provider.Wrap(provider.ErrDenied, "list", "other", "", errors.New("the key is refused")))
	r := x.sweepAll()
	if err := r.Of("other").Err; !errors.Is(err, provider.ErrDenied) || len(r.Of("other").Verdicts) != 0 {
		t.Errorf("the broken provider: %+v", r.Of("other"))
	}
	if !slices.Equal(idsOf(r.Of(cloud).Deleted), []string{id}) {
		t.Errorf("the other one: %+v", r.Of(cloud))
	}
	if got := x.metrics.take(); !slices.Contains(got, `failed "other" list`) {
		t.Errorf("metrics: %q", got)
	}
	if r := x.sweepAll().Of("other"); r.Verdicts[gc.Fresh] != 1 || len(r.Deleted) != 0 {
		t.Errorf("after the gap: %+v, want it to count anew", r)
	}
	if r := x.sweepAll().Of("other"); len(r.Deleted) != 1 {
		t.Errorf("the sweep after: %+v", r)
	}
}

func TestAYoungInstanceIsLeft(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	id := x.orphan("lost")
	x.sweep()
	x.clock.Step(minAge)
	if r := x.sweep(); r.Verdicts[gc.Young] != 1 {
		t.Errorf("verdicts %v", r.Verdicts)
	}
	x.there(id)
	x.clock.Step(time.Second)
	if r := x.sweep(); len(r.Deleted) != 1 {
		t.Errorf("a second older: %+v", r)
	}
}

func TestAnInstanceOfUnknownAgeIsYoung(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	id := x.orphan("lost")
	fake := x.fake()
	created := time.Time{}
	fake.ListFunc = func(ctx ctxT) (provider.Listing, error) {
		l, err := x.provider(mine()).ListByTag(ctx)
		for i := range l.Instances {
			l.Instances[i].CreatedAt = created
		}
		return l, err
	}
	x.twice()
	created = x.clock.Now().Add(1000 * time.Hour)
	if r := x.twice(); r.Verdicts[gc.Young] != 1 {
		t.Errorf("verdicts %v", r.Verdicts)
	}
	x.there(id)
}

func TestAnOrphanIsSeenInTwoConsecutiveSweeps(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	p := x.proxy("lost")
	id := x.create(p, "")
	x.grow()
	x.sweep() // alive
	x.lose(p)
	if r := x.sweep(); r.Verdicts[gc.Fresh] != 1 {
		t.Errorf("the first sweep that sees it dead: %v", r.Verdicts)
	}
	x.there(id)
	x.restart()
	if r := x.sweep(); r.Verdicts[gc.Fresh] != 1 {
		t.Errorf("after a restart: %v", r.Verdicts)
	}
	x.there(id)
	x.sweep()
	x.there()
}

// The same name and marks, but the machine behind them is another one.
func TestAnotherIdentityUnderTheSameIDCountsAnew(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	m := x.dead("lost")
	id := x.place("zone-a", m)
	x.grow()
	x.sweep()
	x.backend.Vanish(id)
	x.place("zone-a", m)
	x.grow()
	if r := x.sweep(); r.Verdicts[gc.Fresh] != 1 {
		t.Errorf("verdicts %v", r.Verdicts)
	}
	x.there(id)
}

func TestAProviderThatWasAwayCountsAnew(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	id := x.orphan("lost")
	x.grow()
	x.sweep()
	entries := x.entries
	x.entries = nil
	x.sweepAll()
	x.entries = entries
	if r := x.sweep(); r.Verdicts[gc.Fresh] != 1 {
		t.Errorf("verdicts %v", r.Verdicts)
	}
	x.there(id)
}

func TestADryRunDeletesNothingAndSaysWhatItWould(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{}, func(o *gc.Options) { o.DryRun = true })
	id := x.orphan("lost")
	r := x.twice()
	if !slices.Equal(idsOf(r.Spared), []string{id}) || len(r.Deleted) != 0 {
		t.Errorf("report: %+v", r)
	}
	x.there(id)
	if len(x.logs.matching("WARNING: ", "would be deleted", id, r.Spared[0].UID)) != 1 {
		t.Errorf("log:\n%s", x.logs)
	}
	if got := x.metrics.take(); len(got) != 0 {
		t.Errorf("metrics: %q", got)
	}
}

func TestARestrictedOperatorCollectsNothing(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.restart(func(o *gc.Options) { o.Namespace = x.ns })
	id := x.orphan("lost")
	x.grow()
	for range 3 {
		if r := x.sweepAll(); r.Skipped != gc.SkipRestricted {
			t.Errorf("report: %+v", r)
		}
	}
	x.there(id)
	if n := x.backend.Calls(providertest.OpList); n != 0 {
		t.Errorf("the backend was listed %d times", n)
	}
}

func TestARestrictedOperatorWithPermissionKeepsToItsNamespace(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.restart(func(o *gc.Options) { o.Namespace, o.AllowNamespaced = x.ns, true })
	x.live.list = func(ctx ctxT, list client.ObjectList, opts ...client.ListOption) error {
		var o client.ListOptions
		if o.ApplyOptions(opts); o.Namespace != x.ns {
			t.Errorf("the Proxies of namespace %q were listed; it may read only those of %q", o.Namespace, x.ns)
		}
		return x.client.List(ctx, list, opts...)
	}
	x.orphan("lost")
	alive := x.create(x.proxy("alive"), "")
	theirs := x.dead("theirs")
	theirs.Namespace = "somebody-elses"
	other := x.place("zone-a", theirs)
	if r := x.twice(); r.Verdicts[gc.Elsewhere] != 1 || r.Verdicts[gc.Live] != 1 || len(r.Deleted) != 1 {
		t.Errorf("report: %+v", r)
	}
	x.there(alive, other)
}

func TestADeletionIsLoggedAsAWarning(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.orphan("lost")
	o := x.twice().Deleted[0]
	lines := x.logs.matching("WARNING: deleting an orphan", `"provider"="cloud"`, fmt.Sprintf(`"providerID"=%q`, o.ID), fmt.Sprintf(`"UID"=%q`, o.UID))
	if len(lines) != 1 || !strings.Contains(lines[0], `"level"=0`) {
		t.Errorf("log:\n%s", x.logs)
	}
}

// fake puts a programmable provider in front of the rig's backend.
func (x *rig) fake() *providertest.Fake {
	f := x.backend.Fake(cloud, mine(), provider.Window{})
	x.entries = []registry.Handle{{Name: cloud, Provider: f}}
	return f
}
