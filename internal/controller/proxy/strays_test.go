package proxy_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestStraysAreRemovedOnlyWhileTheRecordedInstanceExists(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(x *rig, p *v1alpha1.Proxy)
		left    int
	}{
		"the recorded one runs":                   {func(*rig, *v1alpha1.Proxy) {}, 1},
		"the recorded one cannot be read":         {func(x *rig, _ *v1alpha1.Proxy) { x.backend.SetUnread("zone-a", true) }, 2},
		"the stray stands under the recorded ID":  {func(x *rig, p *v1alpha1.Proxy) { x.strays = nil }, 2},
		"the object changed since the pass began": {func(x *rig, p *v1alpha1.Proxy) { x.meddle(p) }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			key := x.managed("a")
			p := x.untilRunning(key)
			marks := provider.Marks{
				UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Installation: "mine", Cluster: "here", Spec: "v1-0", Attempt: 5,
			}
			x.backend.Place("zones/zone-b/instances/"+provider.NameFromUID(string(p.UID)), marks.ToMap(), 3128)
			x.look(p)
			c.prepare(x, p)
			x.pass(key)
			if n := x.instances(); n != c.left {
				t.Fatalf("%d instances, want %d: %+v", n, c.left, x.backend.Instances())
			}
			if got := x.get(key).Status; got.Instance.Attempt != 1 || got.IP != p.Status.IP {
				t.Fatalf("the recorded one was touched: %+v", got)
			}
		})
	}
}

// TestACloneIsNoStray: somebody cloned the machine, labels and all. It has another name, so it is theirs.
func TestACloneIsNoStray(t *testing.T) {
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	key := x.managed("a")
	p := x.untilRunning(key)
	clones := []string{p.Status.ProviderID + "-1", "zones/zone-b/instances/clone"}
	x.clone(p, clones...)
	before := x.backend.Instances()
	x.look(p)
	gets := x.backend.Calls(providertest.OpGet)
	x.pass(key)
	if left := x.backend.Instances(); !reflect.DeepEqual(left, before) || x.backend.Calls(providertest.OpGet) != gets {
		t.Fatalf("%d calls to look at the instance, left are %+v", x.backend.Calls(providertest.OpGet)-gets, left)
	}
	x.delete(key)
	x.until(key, "gone", gone)
	before = slices.DeleteFunc(before, func(l providertest.Leftover) bool { return l.ID == p.Status.ProviderID })
	if left := x.backend.Instances(); !reflect.DeepEqual(left, before) || len(left) != len(clones) {
		t.Fatalf("left %+v, want the clones %+v", left, before)
	}
}

// clone puts copies of p's instance under the IDs, with all its labels.
func (x *rig) clone(p *v1alpha1.Proxy, ids ...string) {
	all := x.backend.Instances()
	i := slices.IndexFunc(all, func(l providertest.Leftover) bool { return l.ID == p.Status.ProviderID })
	for _, id := range ids {
		x.backend.Place(id, all[i].Marks.ToMap(), 3128)
	}
}

// look makes what the backend lists the last list: p's recorded instance, and all others as strays.
func (x *rig) look(p *v1alpha1.Proxy) {
	x.t.Helper()
	listing, err := x.entries[x.entry].Provider.ListByTag(x.t.Context())
	must(x.t, err)
	x.strays = map[string][]provider.Instance{}
	for _, inst := range listing.Instances {
		if inst.ID == p.Status.ProviderID {
			x.seen[inst.Marks.UID] = inst
		} else {
			x.strays[inst.Marks.UID] = append(x.strays[inst.Marks.UID], inst)
		}
	}
}

// meddle freezes the reconciler's cache at p and changes the object behind it.
func (x *rig) meddle(p *v1alpha1.Proxy) {
	x.r.Client = &stale{Client: x.client, old: p.DeepCopy()}
	x.edit(clientKey(p), func(p *v1alpha1.Proxy) { p.Spec.Cordoned = true })
}
