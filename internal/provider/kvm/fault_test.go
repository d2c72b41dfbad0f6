package kvm_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// comesUp checks that a domain runs, and boots it.
func (w *world) comesUp(t *testing.T, when string, p *kvm.Provider, ref provider.Ref) {
	t.Helper()
	for _, d := range w.daemons {
		d.Boot()
	}
	w.expect(t, when, p, ref, "Running")
}

// aliveLimit is how long a connection may take to say that it is alive.
const aliveLimit = 10 * time.Second

// blackHoles are the calls in the middle of which a host falls silent.
var blackHoles = map[string][]string{
	"create": {
		"DomainLookupByName", "DomainLookupByUUID", "NodeGetMemoryStats", "StoragePoolLookupByName", "StoragePoolGetInfo",
		"StoragePoolListAllVolumes", "StorageVolLookupByName", "StoragePoolGetXMLDesc", "DomainDefineXMLFlags", "StorageVolCreateXML",
		"DomainCreateWithFlags", "DomainAgentSetResponseTimeout",
	},
	"delete": {
		"DomainLookupByName", "DomainGetMetadata", "DomainGetState", "DomainDestroyFlags", "StoragePoolLookupByName", "StorageVolLookupByName",
		"StorageVolDelete", "DomainUndefineFlags", "DomainLookupByUUID",
	},
	"list": {"StoragePoolLookupByName", "StoragePoolListAllVolumes", "ConnectListAllDomains", "DomainGetMetadata", "DomainGetState", "NetworkGetDhcpLeases"},
}

// A host that falls silent in mid-call, be it before or after it has done what it was asked, is unreachable. The call ends in its
// time, other hosts notice nothing, and once the host answers again everything goes on.
func TestABlackHole(t *testing.T) {
	for op, calls := range blackHoles {
		for _, call := range calls {
			for _, done := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s at %s, done %t", op, call, done), func(t *testing.T) {
					w := newT(t)
					synctest.Test(t, func(t *testing.T) {
						w.t = providertest.Go(t)
						p, servers := w.inBubble(t)
						blackHole(t, w, p, servers[hostA], op, call, done)
						must(w.t, p.Close())
						for _, s := range servers {
							s.Close()
						}
					})
				})
			}
		}
	}
}

func blackHole(t *testing.T, w *world, p *kvm.Provider, host *wiretest.Server, op, call string, done bool) {
	t.Helper()
	_, there := w.made(p)
	other := w.request()
	other.Placement.Zone = hostB
	otherRef := w.ref(other, 1)
	must(w.t, p.Create(t.Context(), other, otherRef))
	req := w.request()
	ref := w.ref(req, 1)
	struck := false
	host.SetFault(func(c *wiretest.Call) bool {
		if c.Name != call || struck && call != "ConnectGetLibVersion" {
			return false
		}
		struck = true
		if done {
			host.Make(c)
		}
		c.Conn.Silence()
		return true
	})
	began := time.Now()
	var err error
	switch op {
	case "create":
		err = p.Create(t.Context(), req, ref)
	case "delete":
		err = p.Delete(t.Context(), there)
	case "list":
		var l provider.Listing
		l, err = p.ListByTag(t.Context())
		must(w.t, err)
		if !slices.Equal(l.Unread, []string{"hosts/" + hostA}) && call != "NetworkGetDhcpLeases" {
			t.Errorf("unread are %v", l.Unread)
		}
		if len(l.Instances) == 0 || l.Instances[len(l.Instances)-1].ID != otherRef.ID {
			t.Errorf("the other host's instance is not in %v", l.Instances)
		}
	}
	if op != "list" && call != "DomainAgentSetResponseTimeout" {
		expect(t, op, err, provider.ErrTransient, provider.ReasonUnreachable, "no answer to "+call+" within 20s")
	}
	if d := time.Since(began); d > w.window.CallTimeout {
		t.Errorf("it took %v", d)
	}
	began = time.Now()
	_, err = p.Get(t.Context(), otherRef)
	must(w.t, err)
	if d := time.Since(began); d != 0 {
		t.Errorf("the other host took %v", d)
	}
	time.Sleep(aliveLimit) //nolint:forbidigo // in a bubble
	synctest.Wait()
	if n := host.Open(); n > 1 {
		t.Errorf("%d connections are open", n)
	}
	switch op {
	case "create":
		must(w.t, p.Create(t.Context(), req, ref))
		w.comesUp(t, "created", p, ref)
	case "delete":
		must(w.t, p.Delete(t.Context(), there))
		w.expect(t, "deleted", p, w.old(there), "not_found")
	case "list":
		shown, unread := w.list(p)
		if len(shown) != 2 || len(unread) != 0 {
			t.Errorf("listed %v, unread %v", shown, unread)
		}
	}
}

// The same by SSH, over which a host that lost its power says nothing at all. In real time.
func TestABlackHoleBySSH(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes as long as a connection may take to say that it is alive")
	}
	var finish []func()
	for op, call := range map[string]string{"create": "StorageVolCreateXML", "delete": "StorageVolDelete", "list": "ConnectListAllDomains"} {
		finish = append(finish, blackHoleBySSH(t, op, call))
	}
	for _, f := range finish { // they have waited side by side
		f()
	}
}

func blackHoleBySSH(t *testing.T, op, call string) (finish func()) {
	t.Helper()
	w := newT(t)
	all := w.overSSH(t)
	p := w.through(all, hostA)
	_, there := w.made(p)
	req := w.request()
	ref := w.ref(req, 1)
	at, release := w.wires[hostA].Hold(libvirttest.On(call))
	do := func() error {
		switch op {
		case "create":
			return p.Create(t.Context(), req, ref)
		case "delete":
			return p.Delete(t.Context(), there)
		}
		return second(p.ListByTag(t.Context()))
	}
	failed := make(chan error, 1)
	go func() { failed <- do() }()
	<-at
	all[hostA].SilenceAll()
	began := time.Now()
	w.clock.Step(15 * time.Second) // when the host is asked whether it is alive
	return func() {
		expect(t, op, <-failed, provider.ErrTransient, provider.ReasonUnreachable, call+": the connection was lost")
		if d := time.Since(began); d > w.window.CallTimeout {
			t.Errorf("%s took %v", op, d)
		}
		release()
		must(w.t, do())
		switch op {
		case "create":
			w.comesUp(t, "created", p, ref)
		case "delete":
			w.expect(t, "deleted", p, w.old(there), "not_found")
		}
	}
}

// libvirt refuses what changes a pool while something in it takes long. It passes.
func TestAsynchronousJobs(t *testing.T) {
	const says = "internal error: pool 'default' has asynchronous jobs running."
	for _, code := range []libvirt.ErrorNumber{libvirt.ErrInternalError, libvirt.ErrOperationInvalid} {
		w := newWorld(providertest.Go(t))
		p := w.through(w.overSSH(t), hostA)
		wire := w.wires[hostA]
		busy := func(string, func() error) error { return libvirt.Error{Code: uint32(code), Message: says} }
		req := w.request()
		// At the base image, and its marker.
		for range 2 {
			wire.Once(libvirttest.On("StorageVolCreateXML"), busy)
			expect(t, "Plan", w.planned(p, req), provider.ErrTransient, "", "StorageVolCreateXML", "asynchronous jobs")
			w.clock.Step(2 * time.Minute)
		}
		must(w.t, w.planned(p, req))
		// At the disk and the seed.
		ref := w.ref(req, 1)
		for n := range 2 {
			seen := 0
			remove := wire.Add(libvirttest.On("StorageVolCreateXML"), func(call string, do func() error) error {
				if seen++; seen == n+1 {
					return busy(call, do)
				}
				return do()
			})
			expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrTransient, "", "StorageVolCreateXML", "asynchronous jobs")
			remove()
			w.expect(t, "in between", p, ref, "Provisioning")
		}
		must(w.t, p.Create(t.Context(), req, ref))
		w.comesUp(t, "created", p, ref)
		// At what removes or reads.
		for _, call := range []string{"StorageVolDelete", "StoragePoolLookupByName"} {
			wire.Once(libvirttest.On(call), busy)
			expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrTransient, "", call, "asynchronous jobs")
			if s := w.state(p, ref); s != "Stopped" && s != "Terminated" {
				t.Errorf("in between: %s", s)
			}
		}
		wire.Once(libvirttest.On("StoragePoolListAllVolumes"), busy)
		_, err := p.ListByTag(t.Context())
		expect(t, "List", err, provider.ErrTransient, "", "StoragePoolListAllVolumes", "asynchronous jobs")
		must(w.t, p.Delete(t.Context(), ref))
		w.expect(t, "deleted", p, w.old(ref), "not_found")
		must(w.t, p.Close())
	}
}

// Hosts that accept and then say nothing are unreachable, and no other waits for them. In real time.
func TestSilentHosts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes as long as dialing may")
	}
	var finish []func()
	for name, f := range silentHosts(func(c *wiretest.Call) { c.Conn.Silence() }) {
		finish = append(finish, silentHost(t, name, f))
	}
	for _, f := range finish { // they have waited side by side
		f()
	}
}

func silentHost(t *testing.T, name string, hush func(*hypervisor)) (finish func()) {
	t.Helper()
	w := newT(t)
	all := w.overSSH(t)
	hush(all[hostA])
	p := w.through(all)
	req := w.request()
	ref := w.ref(req, 1)
	began := time.Now()
	failed, status := make(chan error, 4), make(chan []provider.TargetStatus, 1)
	go func() { failed <- second(p.Plan(t.Context(), req)) }()
	go func() { failed <- p.Create(t.Context(), req, ref) }()
	go func() { failed <- second(p.Get(t.Context(), ref)) }()
	go func() { failed <- p.Delete(t.Context(), ref) }()
	go func() { status <- p.Check(t.Context()) }()
	other := w.request()
	other.Placement.Zone = hostB
	otherRef := w.ref(other, 1)
	must(w.t, p.Create(t.Context(), other, otherRef))
	w.comesUp(t, name+": the other host", p, otherRef)
	if d := time.Since(began); d > aliveLimit/2 {
		t.Errorf("%s: the other host took %v", name, d)
	}
	return func() {
		for range cap(failed) {
			expect(t, name, <-failed, provider.ErrTransient, provider.ReasonUnreachable)
		}
		if s := (<-status)[0]; s.Target != hostA || s.Ready || s.Reason != provider.CheckTimeout {
			t.Errorf("%s: Check of %s: %s: %s", name, s.Target, s.Reason, s.Message)
		}
		if d := time.Since(began); d > w.window.CallTimeout {
			t.Errorf("%s took %v", name, d)
		}
	}
}
