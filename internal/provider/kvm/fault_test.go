package kvm_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
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

// The connection dies while the seed is written: the domain is not started, and what comes next writes all of it.
func TestDeathInMidSeed(t *testing.T) {
	for name, die := range map[string]func(h *hypervisor){
		"of the host":    func(h *hypervisor) { h.CutAll() },
		"of the daemon":  func(h *hypervisor) { h.libvirt.Cut() },
		"of its process": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t)
			all := w.overSSH(t)
			p := w.through(all, hostA)
			req := w.request()
			ref := w.ref(req, 1)
			if die == nil {
				// libvirtd says that the stream has ended before it says why.
				all[hostA].libvirt.SetFault(on("StorageVolUpload", func(c *wiretest.Call) {
					c.Conn.Send(c.Answer(nil).Bytes())
					c.Conn.Send(c.Stream(2, nil).Bytes())
					c.Conn.Send(c.StreamError(libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "Input/output error"}).Bytes())
				}))
				err := p.Create(t.Context(), req, ref)
				expect(t, "Create", err, provider.ErrTransient, "", "StorageVolUpload", "Input/output error")
			} else {
				w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
					die(all[hostA])
					return do()
				})
				err := p.Create(t.Context(), req, ref)
				expect(t, "Create", err, provider.ErrTransient, provider.ReasonUnreachable, "StorageVolUpload: the connection was lost")
			}
			if e := w.only(); e.State != libvirt.DomainShutoff {
				t.Errorf("the domain is in state %d", e.State)
			}
			if got, _ := w.daemons[hostA].Volume(w.volume(ref, "seed.iso")); len(got) != 0 {
				t.Errorf("%d bytes of the seed are there", len(got))
			}
			w.expect(t, "after that", p, ref, "Provisioning")
			all[hostA].libvirt.SetFault(nil)
			must(w.t, p.Create(t.Context(), req, ref))
			seed, err := kvm.SeedISO(w.only().UUID, req.Name, req.CloudInit, false)
			must(w.t, err)
			if got, _ := w.daemons[hostA].Volume(w.volume(ref, "seed.iso")); len(got) != len(seed) || !bytes.Contains(got, []byte("#cloud-config")) {
				t.Errorf("%d bytes of the seed are there, want %d", len(got), len(seed))
			}
			w.comesUp(t, "created", p, ref)
			must(w.t, p.Delete(t.Context(), ref))
			if left := w.instances(); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// planned asks until a download has ended one way or the other, and returns what Plan says then.
func (w *world) planned(p *kvm.Provider, req provider.CreateRequest) error {
	w.t.Helper()
	for range 5000 {
		_, err := p.Plan(w.t.Context(), req)
		// What ends the download's connection may have ended the shared one, too.
		if err == nil || !strings.Contains(err.Error(), "is being downloaded") && (strings.Contains(err.Error(), "image") || provider.Reason(err) != provider.ReasonUnreachable) {
			return err
		}
		must(w.t, pause(w.t.Context()))
	}
	w.t.Fatalf("the download has no end")
	return nil
}

// The connection dies while a base image is written: what there is of it is not used and does not stay.
func TestDeathInMidImage(t *testing.T) {
	for name, die := range map[string]func(h *hypervisor){
		"of the host":    func(h *hypervisor) { h.CutAll() },
		"of the daemon":  func(h *hypervisor) { h.libvirt.Cut() },
		"of its process": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(providertest.Go(t)) // whose hosts have no image
			all := w.overSSH(t)
			p := w.through(all, hostA)
			req := w.request()
			if die == nil {
				all[hostA].libvirt.SetFault(on("StorageVolUpload", func(c *wiretest.Call) {
					c.Conn.Send(c.Answer(nil).Bytes())
					c.Conn.Send(c.Stream(2, nil).Bytes())
					c.Conn.Send(c.StreamError(libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "Input/output error"}).Bytes())
				}))
			} else {
				w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
					die(all[hostA])
					return do()
				})
			}
			for range 2 { // it is not tried again at once
				expect(t, "Plan", w.planned(p, req), provider.ErrTransient, "", "image", "StorageVolUpload")
				ref := w.ref(req, 1)
				expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrTransient, "", "StorageVolUpload")
			}
			if v := w.daemons[hostA].Volumes(); len(v) > 0 {
				t.Errorf("left are %v", v)
			}
			all[hostA].libvirt.SetFault(nil)
			w.clock.Step(time.Minute)
			must(w.t, w.planned(p, req))
			var whole int
			for _, v := range w.daemons[hostA].Volumes() {
				if got, _ := w.daemons[hostA].Volume(v); bytes.Equal(got, image) {
					whole++
				}
			}
			if v := w.daemons[hostA].Volumes(); whole != 1 || len(v) != 2 {
				t.Errorf("there are %v, %d of them with the image", v, whole)
			}
		})
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

// Things go while they are read, by other processes or hands.
func TestObjectsThatVanish(t *testing.T) {
	type vanishing struct {
		at   string         // the call before which
		do   func(w *world) // somebody takes it away
		op   string
		want string // what is said, "" for success
	}
	domain := func(w *world) { w.daemons[hostA].Undefine(w.daemons[hostA].Domains()[0].Name) }
	volumes := func(w *world) {
		for _, v := range w.instances() {
			w.daemons[hostA].RemoveVolume(v)
		}
	}
	base := func(w *world) {
		for _, v := range w.daemons[hostA].Volumes() {
			if strings.HasPrefix(v, "epx-base-") {
				w.daemons[hostA].RemoveVolume(v)
			}
		}
	}
	missing := func(code libvirt.ErrorNumber, call string) func(w *world) {
		return func(w *world) { w.wires[hostA].Add(libvirttest.On(call), fails(code)) }
	}
	for _, v := range []vanishing{
		{"DomainGetMetadata", domain, "list", "Terminated"}, // its volumes are left
		{"DomainGetState", domain, "list", "Terminated"},
		{"NetworkGetDhcpLeases", domain, "list", "Running"}, // it was there when it was read
		{"DomainGetMetadata", domain, "get", "Terminated"},
		{"DomainGetState", domain, "get", "Terminated"},
		{"DomainGetMetadata", domain, "delete", ""},
		{"DomainDestroyFlags", domain, "delete", ""},
		{"DomainUndefineFlags", domain, "delete", ""},
		{"StorageVolLookupByName", volumes, "delete", ""},
		{"StorageVolDelete", volumes, "delete", ""},
		{"StorageVolLookupByName", base, "plan", "being downloaded"},
		{"StorageVolGetInfo", base, "plan", "being downloaded"},
		{"StorageVolCreateXML", base, "create", "transient"},
		{"StorageVolUpload", func(w *world) { w.daemons[hostA].RemoveVolume(w.instances()[len(w.instances())-1]) }, "create", "transient"},
		{"DomainCreateWithFlags", domain, "create", "transient"},
		{"DomainCreateWithFlags", volumes, "create", "transient"},
		{"DomainAgentSetResponseTimeout", domain, "create", ""},
		{"StoragePoolLookupByName", missing(libvirt.ErrNoStoragePool, "StoragePoolGetXMLDesc"), "create", "transient"},
		{"StoragePoolLookupByName", missing(libvirt.ErrNoStoragePool, "StoragePoolListAllVolumes"), "list", "transient"},
		{"DomainGetState", missing(libvirt.ErrNoNetwork, "NetworkGetDhcpLeases"), "get", "Unknown"}, // nobody knows its address
		{"DomainGetState", missing(libvirt.ErrNoNetwork, "NetworkLookupByName"), "get", "Unknown"},
	} {
		t.Run(v.op+" before "+v.at, func(t *testing.T) {
			w := newT(t)
			p := w.through(w.overSSH(t), hostA)
			var ref provider.Ref
			if v.op != "create" {
				_, ref = w.made(p)
			}
			w.wires[hostA].Once(libvirttest.On(v.at), func(_ string, do func() error) error {
				v.do(w)
				return do()
			})
			req := w.request()
			var got string
			var err error
			switch v.op {
			case "list":
				var l provider.Listing
				if l, err = p.ListByTag(t.Context()); err == nil {
					for _, inst := range l.Instances {
						got += string(inst.State)
					}
				}
			case "get":
				var inst *provider.Instance
				if inst, err = p.Get(t.Context(), w.old(ref)); err == nil {
					got = string(inst.State)
				}
			case "delete":
				if err = p.Delete(t.Context(), ref); err == nil && len(w.instances())+len(w.daemons[hostA].Domains()) > 0 {
					got = "something is left"
				}
			case "plan":
				_, err = p.Plan(t.Context(), req)
			case "create":
				err = p.Create(t.Context(), req, w.ref(req, 1))
			}
			if err != nil {
				got = provider.ClassName(err) + ": " + err.Error()
			}
			if v.want == "" && got != "" || !strings.Contains(strings.ToLower(got), strings.ToLower(v.want)) {
				t.Errorf("%q, want %q", got, v.want)
			}
			must(w.t, p.Close())
		})
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
