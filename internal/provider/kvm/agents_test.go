package kvm_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// Guests are not to be trusted: those whose agents are silent take few of the daemon's workers, and each at most one.
func TestSilentAgents(t *testing.T) {
	w := newT(t)
	w.extra = "addressSources: [agent]\n"
	const guests = kvm.MaxAgents + 4
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.onlyA()
		var refs []provider.Ref
		for range guests {
			_, ref := w.made(p)
			refs = append(refs, ref)
		}
		var asked, most, now atomic.Int32
		free := make(chan struct{})
		hang := func(_ string, do func() error) error {
			asked.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			<-free
			defer now.Add(-1)
			return do()
		}
		remove := w.wires[hostA].Add(libvirttest.On("DomainInterfaceAddresses"), hang)
		began := time.Now()
		if shown, _ := w.list(p); len(shown) != guests {
			t.Errorf("list %q", shown)
		}
		if d := time.Since(began); d != kvm.AgentPatience || asked.Load() != kvm.MaxAgents {
			t.Errorf("%d agents asked in %v, want %d in %v", asked.Load(), d, kvm.MaxAgents, kvm.AgentPatience)
		}
		// While they have not answered, nobody is asked. Those who do not answer have no address; of the others nothing is known.
		began = time.Now()
		states := map[provider.State]int{}
		for _, ref := range refs {
			inst, err := p.Get(t.Context(), ref)
			must(w.t, err)
			states[inst.State]++
		}
		if states[provider.StateProvisioning] != kvm.MaxAgents || states[provider.StateUnknown] != guests-kvm.MaxAgents {
			t.Errorf("meanwhile they are %v", states)
		}
		if d := time.Since(began); d > (guests-kvm.MaxAgents)*kvm.SourceLimit || asked.Load() != kvm.MaxAgents {
			t.Errorf("%d agents asked, after %v", asked.Load(), d)
		}
		close(free)
		synctest.Wait()
		remove()
		for _, ref := range refs {
			d, name := w.daemon(ref.ID)
			for _, e := range d.Domains() {
				if e.Name == name {
					d.Answer(name, fromAgent, nic(e.MAC, "192.0.2.7"))
				}
			}
			w.expect(t, "once they answer", p, ref, "Running")
		}
		if most.Load() != kvm.MaxAgents {
			t.Errorf("%d at a time", most.Load())
		}
	})
}

// Agents that answer are all asked, however many there are, a few at a time.
func TestManyAgents(t *testing.T) {
	w := newT(t)
	w.extra = "addressSources: [agent]\n"
	const guests = 5 * kvm.MaxAgents
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.onlyA()
		for range guests {
			_, ref := w.made(p)
			d, name := w.daemon(ref.ID)
			for _, e := range d.Domains() {
				if e.Name == name {
					d.Answer(name, fromAgent, nic(e.MAC, "192.0.2.7"))
				}
			}
		}
		var most, now atomic.Int32
		w.wires[hostA].Add(libvirttest.On("DomainInterfaceAddresses"), func(_ string, do func() error) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-time.After(time.Second) // of the bubble
			return do()
		})
		l, err := p.ListByTag(t.Context())
		must(w.t, err)
		for _, inst := range l.Instances {
			if inst.State != provider.StateRunning || inst.IP != "192.0.2.7" {
				t.Errorf("%s is %s at %q: %s", inst.ID, inst.State, inst.IP, inst.Message)
			}
		}
		if len(l.Instances) != guests || most.Load() != kvm.MaxAgents {
			t.Errorf("%d instances, %d agents at a time", len(l.Instances), most.Load())
		}
	})
}

// Many who ask for one guest at a time are one call.
func TestOneCallForAGuest(t *testing.T) {
	w := newT(t)
	w.extra = "addressSources: [agent]\n"
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.onlyA()
		_, ref := w.made(p)
		var asked atomic.Int32
		free := make(chan struct{})
		w.wires[hostA].Add(libvirttest.On("DomainInterfaceAddresses"), func(_ string, do func() error) error {
			asked.Add(1)
			<-free
			return do()
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { w.expect(t, "meanwhile", p, ref, "Provisioning") })
		}
		wg.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
		close(free)
		synctest.Wait()
		w.expect(t, "after it", p, ref, "Provisioning")
		if n := asked.Load(); n != 2 {
			t.Errorf("%d calls after the first was answered", n)
		}
	})
}

// A call to an agent that was given up before it was sent does not count as one that is under way.
func TestAnAgentThatWasNotAsked(t *testing.T) {
	w := newT(t)
	w.extra = "addressSources: [agent]\n"
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.onlyA()
		_, ref := w.made(p)
		wire, free := w.wires[hostA], make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		// All that the connection carries at a time is taken just before the agent is asked.
		wire.Once(libvirttest.On("DomainGetState"), func(_ string, do func() error) error {
			wire.Add(libvirttest.On("ConnectListAllDomains", "StoragePoolLookupByName"), func(_ string, do func() error) error { <-free; return do() })
			for range 64 {
				wg.Go(func() { _, _ = p.ListByTag(ctx) })
			}
			time.Sleep(time.Second) //nolint:forbidigo // in a bubble
			return do()
		})
		seen := func() (n int) {
			for _, call := range wire.Seen() {
				if call == "DomainInterfaceAddresses" {
					n++
				}
			}
			return n
		}
		w.expect(t, "without a free place", p, ref, "Provisioning")
		if n := seen(); n != 0 {
			t.Errorf("%d calls", n)
		}
		cancel()
		close(free)
		wg.Wait()
		w.expect(t, "with one", p, ref, "Provisioning")
		if n := seen(); n != 1 {
			t.Errorf("%d calls, want one", n)
		}
	})
}
