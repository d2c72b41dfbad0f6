package crash

import (
	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// backend is where a world's instances stand. It outlives the operators.
type backend interface {
	// provider returns one as an operator that starts now would make it. What it does to the backend are effects of w.
	provider(w *world) provider.Provider
	// OnCall installs the hook that decides what befalls each call.
	OnCall(hook func(op string, ref provider.Ref) providertest.Fault)
	// Instances is the leak probe: everything left of creations, visible or not.
	Instances() []providertest.Leftover
	// others is what is left besides instances.
	others() []string
	// InFlight returns how many calls have left their callers and not arrived yet.
	InFlight() int
	// history tells what has reached the backend, as far as it can be told.
	history() []string
	// Serving returns the identity of the instance that serves at an address, "" for none.
	Serving(ip string, port int32) (identity string)

	// id and placement translate the zones of flows, "" being the zone of who asks for none.
	id(zone, name string) string
	placement(zone string) *v1alpha1.Placement

	// What happens to an instance without the operator's doing.
	Stop(id, why string) bool
	Terminate(id string) bool
	Confuse(id string) bool
	Start(id string) bool
	LoseMain(id string) bool
	Vanish(id string) bool
	unread(zone string, unread bool)

	close()
}

var owner = provider.Owner{Installation: "mine", Cluster: "here"}

// ground is a kind of backend that worlds can stand on.
type ground struct {
	name string
	// visible are the ways in which its effects come about.
	visible []visibility
	build   func(w *world) backend
}

// memory is a cloud in memory. Whole calls of its provider are effects.
type memory struct{ *providertest.Backend }

func onMemory(kind providertest.Kind) ground {
	return ground{string(kind), visibilities(), func(w *world) backend {
		return memory{providertest.NewBackend(kind, w.clock, w.vis.inMemory())}
	}}
}

func (v visibility) inMemory() providertest.BackendOptions {
	return providertest.BackendOptions{
		CreateDelay: v.delay, DeleteDelay: v.delay, BootDelay: bootDelay, Visibility: v.delay, ListLag: v.lag,
	}
}

func (m memory) provider(w *world) provider.Provider {
	return &mortalProvider{Provider: m.Provider(entry, owner, w.window()), w: w}
}

func (memory) others() []string { return nil }

func (memory) history() []string { return nil }

func (memory) id(zone, name string) string { return "zones/" + zone + "/instances/" + name }

func (memory) placement(zone string) *v1alpha1.Placement {
	if zone == "" {
		return nil
	}
	return &v1alpha1.Placement{Zone: zone}
}

func (m memory) unread(zone string, unread bool) { m.SetUnread(zone, unread) }

func (memory) close() {}
