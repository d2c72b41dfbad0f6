package kvm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// step is one call of the provider that is expected to succeed unless a call to the daemon fails.
type step struct {
	op  string
	id  string
	do  func(ctx context.Context) error
	all []string // the calls to the daemon that it makes
}

// steps returns one call of each kind, and prepares what they need. What they do may be repeated.
func (w *world) steps(p *kvm.Provider) []step {
	w.t.Helper()
	_, ref := w.made(p)
	gone, fresh := w.ref(w.request(), 1), w.request()
	freshRef := w.ref(fresh, 1)
	return []step{
		{"plan", "", func(ctx context.Context) error { _, err := p.Plan(ctx, w.request()); return err }, []string{
			"NodeGetMemoryStats", "StoragePoolLookupByName", "StoragePoolGetInfo", "StoragePoolListAllVolumes", "StorageVolLookupByName", "StorageVolGetInfo",
			"NetworkLookupByName",
		}},
		{"get", ref.ID, func(ctx context.Context) error { _, err := p.Get(ctx, ref); return err }, []string{
			"DomainLookupByName", "DomainGetMetadata", "DomainGetState",
		}},
		{"get", gone.ID, func(ctx context.Context) error { _, err := p.Get(ctx, gone); return err }, []string{
			"DomainLookupByName", "DomainLookupByUUID", "StoragePoolLookupByName", "StoragePoolListAllVolumes",
		}},
		{"list", "", func(ctx context.Context) error { _, err := p.ListByTag(ctx); return err }, []string{
			"StoragePoolLookupByName", "StoragePoolListAllVolumes", "ConnectListAllDomains", "DomainGetMetadata", "DomainGetState",
		}},
		{"create", freshRef.ID, func(ctx context.Context) error { return p.Create(ctx, fresh, freshRef) }, []string{
			"DomainLookupByName", "DomainLookupByUUID", "NodeGetMemoryStats", "StoragePoolLookupByName", "StoragePoolGetInfo",
			"StoragePoolListAllVolumes", "StorageVolLookupByName", "StorageVolGetInfo", "StoragePoolGetXMLDesc",
			"DomainDefineXMLFlags", "StorageVolCreateXML", "StorageVolUpload", "DomainCreateWithFlags",
		}},
		{"delete", ref.ID, func(ctx context.Context) error { return p.Delete(ctx, ref) }, []string{
			"DomainLookupByName", "DomainGetMetadata", "DomainGetState", "DomainDestroyFlags", "StoragePoolLookupByName", "StorageVolLookupByName",
			"StorageVolDelete", "DomainUndefineFlags", "DomainLookupByUUID",
		}},
	}
}

// fresh undoes what a step may have done half.
func (w *world) fresh() {
	for _, d := range w.daemons {
		for _, e := range d.Domains() {
			d.Undefine(e.Name)
		}
	}
	for _, v := range w.instances() {
		w.daemons[hostA].RemoveVolume(v)
		w.daemons[hostB].RemoveVolume(v)
	}
}

// onlyA has one host, so that what fails there is all there is.
func (w *world) onlyA() *kvm.Provider {
	w.t.Helper()
	p, err := w.open(entry, owner, strings.Replace(w.block(), "- {name: hv-b, socket: /run/b}\n", "", 1))
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// The same error means the same wherever it comes from.
func TestErrorsOfLibvirt(t *testing.T) {
	want := map[libvirt.ErrorNumber]error{
		libvirt.ErrInternalError: provider.ErrTransient, libvirt.ErrOperationFailed: provider.ErrTransient, libvirt.ErrSystemError: provider.ErrTransient,
		libvirt.ErrOperationTimeout: provider.ErrTransient, libvirt.ErrOperationInvalid: provider.ErrTransient, libvirt.ErrAgentUnresponsive: provider.ErrTransient,
		libvirt.ErrRPC: provider.ErrTransient, libvirt.ErrResourceBusy: provider.ErrTransient, libvirt.ErrorNumber(9999): provider.ErrTransient,
		libvirt.ErrAuthFailed: provider.ErrDenied, libvirt.ErrAuthCancelled: provider.ErrDenied, libvirt.ErrAuthUnavailable: provider.ErrDenied,
		libvirt.ErrAccessDenied: provider.ErrDenied, libvirt.ErrOperationDenied: provider.ErrDenied,
		libvirt.ErrXMLError: provider.ErrPermanent, libvirt.ErrXMLDetail: provider.ErrPermanent, libvirt.ErrXMLInvalidSchema: provider.ErrPermanent,
		libvirt.ErrConfigUnsupported: provider.ErrPermanent, libvirt.ErrInvalidArg: provider.ErrPermanent, libvirt.ErrNoSupport: provider.ErrPermanent,
		libvirt.ErrArgumentUnsupported: provider.ErrPermanent, libvirt.ErrOperationUnsupported: provider.ErrPermanent, libvirt.ErrOsType: provider.ErrPermanent,
		libvirt.ErrNoStoragePool: provider.ErrTransient, libvirt.ErrNoNetwork: provider.ErrTransient, libvirt.ErrInvalidNetwork: provider.ErrPermanent,
		libvirt.ErrNoMemory: provider.ErrQuotaExceeded,
	}
	for code, class := range kvm.Codes() {
		if want[code] != class {
			t.Errorf("%v is %v in the table, %v here", code, class, want[code])
		}
	}
	w := newT(t)
	p := w.onlyA()
	steps := w.steps(p)
	for code, class := range want {
		for _, s := range steps {
			for _, call := range s.all {
				remove := w.wires[hostA].Add(libvirttest.On(call), fails(code))
				err := s.do(t.Context())
				remove()
				expect(t, fmt.Sprintf("%s with %v from %s", s.op, code, call), err, class, "", call, "refused by the test")
				if e, ok := errors.AsType[*provider.Error](err); ok && (e.Op != s.op || e.Provider != entry || e.ID != s.id) {
					t.Errorf("%s with %v from %s: it says it is of %q by %q for %q", s.op, code, call, e.Op, e.Provider, e.ID)
				}
				if s.op == "create" || s.op == "delete" {
					w.fresh()
					if s.op == "delete" {
						w.recreate(p, s.id)
					}
				}
			}
		}
	}
}

// recreate makes the first instance anew, which steps prepared.
func (w *world) recreate(p *kvm.Provider, id string) {
	w.t.Helper()
	w.mu.Lock()
	n := w.uids
	w.uids = 0
	w.mu.Unlock()
	_, ref := w.made(p)
	w.mu.Lock()
	w.uids = n
	w.mu.Unlock()
	if ref.ID != id {
		w.t.Fatalf("it is %s, not %s", ref.ID, id)
	}
}

// What the way to a host fails by.
func TestErrorsOfDialing(t *testing.T) {
	w := newT(t)
	var dials atomic.Int32
	var fault error
	w.dial = func(_ context.Context, host string) (net.Conn, error) {
		dials.Add(1)
		if fault != nil {
			return nil, fault
		}
		return w.daemons[host].Dial()
	}
	for _, tc := range []struct {
		reason string
		class  error
		mark   string
		rest   time.Duration
	}{
		{dial.Unreachable, provider.ErrTransient, provider.ReasonUnreachable, 0},
		{dial.Timeout, provider.ErrTransient, provider.ReasonUnreachable, kvm.SilentRest},
		{dial.SSHHandshakeFailed, provider.ErrTransient, provider.ReasonUnreachable, 0},
		{dial.LibvirtUnreachable, provider.ErrTransient, provider.ReasonUnreachable, 0},
		{dial.SSHAuthFailed, provider.ErrDenied, "", kvm.RefusedRest},
		{dial.HostKeyUnknown, provider.ErrDenied, "", kvm.RefusedRest},
		{dial.HostKeyMismatch, provider.ErrDenied, "", kvm.RefusedRest},
		{dial.HostKeyRevoked, provider.ErrDenied, "", kvm.RefusedRest},
		{dial.KeyUnreadable, provider.ErrDenied, "", kvm.RefusedRest},
		{dial.KnownHostsUnreadable, provider.ErrDenied, "", kvm.RefusedRest},
	} {
		rests := tc.rest > 0
		fault = nil
		p := w.onlyA()
		must(w.t, p.Close())
		p = w.onlyA() // which has not connected yet
		fault = &dial.Error{Reason: tc.reason, Err: errors.New("by the test")}
		before := dials.Load()
		req := w.request()
		ref := w.ref(req, 1)
		for what, err := range map[string]error{
			"Plan":   second(p.Plan(t.Context(), req)),
			"Get":    second(p.Get(t.Context(), ref)),
			"List":   second(p.ListByTag(t.Context())),
			"Create": p.Create(t.Context(), req, ref),
			"Delete": p.Delete(t.Context(), ref),
		} {
			expect(t, what+" with "+tc.reason, err, tc.class, tc.mark, "by the test")
		}
		if n := dials.Load() - before; rests != (n == 1) || !rests && n < 5 {
			t.Errorf("%s: dialed %d times, at rest: %t", tc.reason, n, rests)
		}
		// Once it is mended it works, after a rest.
		fault = nil
		w.clock.Step(max(tc.rest-1, 0))
		if _, err := p.Get(t.Context(), ref); rests != (err != nil) {
			t.Errorf("%s: before the rest has ended: %v", tc.reason, err)
		}
		w.clock.Step(1)
		if _, err := p.Get(t.Context(), ref); err != nil {
			t.Errorf("%s: after the rest: %v", tc.reason, err)
		}
		must(w.t, p.Close())
		w.fresh()
	}
}

func second[T any](_ T, err error) error { return err }

// What answers is not the host that is meant, or not libvirt.
func TestErrorsOfTheOpening(t *testing.T) {
	w := newT(t)
	open := func(extra string) *kvm.Provider {
		p, err := w.open(entry, owner, strings.Replace(w.block(), "- {name: hv-a, socket: /run/a}\n- {name: hv-b, socket: /run/b}\n", "- {name: hv-a"+extra+"}\n", 1))
		must(w.t, err)
		t.Cleanup(func() { _ = p.Close() })
		return p
	}
	ref := w.ref(w.request(), 1)
	_, err := open(", hostUUID: "+strings.ToUpper(w.daemons[hostA].UUID())).Get(t.Context(), ref)
	must(w.t, err)
	_, err = open(", hostUUID: 00000000-0000-4000-8000-000000000000").Get(t.Context(), ref)
	expect(t, "another host", err, provider.ErrDenied, "", "another host answers")
	saying := func(err error) {
		w.speak = func(string, speaking) speaking {
			return func(net.Conn) (session.API, error) { return nil, err }
		}
	}
	saying(io.EOF)
	_, err = open("").Get(t.Context(), ref)
	expect(t, "one that hangs up", err, provider.ErrTransient, provider.ReasonUnreachable, "opening")
	saying(libvirt.Error{Code: uint32(libvirt.ErrAuthUnavailable), Message: "polkit"})
	_, err = open("").Get(t.Context(), ref)
	expect(t, "one that refuses", err, provider.ErrDenied, "", "polkit")
}

// A host that accepts and then is silent is unreachable, and no call waits for it longer than it may.
func TestASilentHost(t *testing.T) {
	w := newT(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		w.speak = func(string, speaking) speaking {
			return func(c net.Conn) (session.API, error) {
				_, err := c.Read(make([]byte, 1)) // until it is closed
				return nil, err
			}
		}
		p := w.onlyA()
		began := time.Now()
		_, err := p.Get(t.Context(), w.ref(w.request(), 1))
		expect(t, "Get", err, provider.ErrTransient, provider.ReasonUnreachable, "no answer within 10s")
		if d := time.Since(began); d != 10*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

// A call that is not answered ends, and says which it was.
func TestACallWithoutAnAnswer(t *testing.T) {
	for _, op := range []string{"plan", "get", "list", "create", "delete"} {
		w := newT(t)
		synctest.Test(t, func(t *testing.T) {
			w.t = providertest.Go(t)
			p := w.onlyA()
			steps := w.steps(p)
			i := slices.IndexFunc(steps, func(s step) bool { return s.op == op })
			hang := make(chan struct{})
			call := steps[i].all[0]
			w.wires[hostA].Add(libvirttest.On(call), func(string, func() error) error { <-hang; return errLost })
			began := time.Now()
			err := steps[i].do(t.Context())
			expect(t, op, err, provider.ErrTransient, provider.ReasonUnreachable, "no answer to "+call+" within 20s")
			if d := time.Since(began); d != kvm.CallLimit {
				t.Errorf("%s took %v", op, d)
			}
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			expect(t, op+" cancelled", steps[i].do(ctx), provider.ErrTransient, "", "canceled")
			if d := time.Since(began); d != kvm.CallLimit+time.Second {
				t.Errorf("%s cancelled took %v", op, d-kvm.CallLimit)
			}
			close(hang)
		})
	}
}

// A connection that ends under a call leaves open whether that took effect; the next one goes over a new connection.
func TestALostConnection(t *testing.T) {
	for i, op := range []string{"plan", "get", "get", "list", "create", "delete"} {
		w := newT(t)
		p := w.onlyA()
		s := w.steps(p)[i]
		at, release := w.wires[hostA].Hold(libvirttest.On(s.all[0]))
		remove := w.wires[hostA].Add(libvirttest.On("ConnectGetLibVersion"), func(string, func() error) error { return io.ErrUnexpectedEOF })
		done := make(chan error, 1)
		go func() { done <- s.do(t.Context()) }()
		<-at
		for !w.clock.HasWaiters() {
			must(w.t, pause(t.Context()))
		}
		w.clock.Step(15 * time.Second) // when a connection is asked whether it lives
		expect(t, op, <-done, provider.ErrTransient, provider.ReasonUnreachable, "connection was lost")
		remove()
		release()
		if err := w.steps(p)[i].do(t.Context()); err != nil {
			t.Errorf("%s over a new connection: %v", op, err)
		}
	}
}

// libvirt has no code for a pool that is full; its own figures say so, and no message is read.
func TestAFullPool(t *testing.T) {
	const little = 64 << 20
	for _, tc := range []struct {
		reason string
		call   string
		room   uint64
		code   libvirt.ErrorNumber
		class  error
	}{
		{"full, for a disk", "StorageVolCreateXML", 0, libvirt.ErrSystemError, provider.ErrQuotaExceeded},
		{"nearly full", "StorageVolCreateXML", little - 1, libvirt.ErrInternalError, provider.ErrQuotaExceeded},
		{"not full", "StorageVolCreateXML", little, libvirt.ErrSystemError, provider.ErrTransient},
		{"full, for a seed", "StorageVolUpload", 0, libvirt.ErrInternalError, provider.ErrQuotaExceeded},
		{"not full, for a seed", "StorageVolUpload", little, libvirt.ErrInternalError, provider.ErrTransient},
	} {
		w := newT(t)
		p := w.provider()
		req := w.request()
		ref := w.ref(req, 1)
		w.wires[hostA].Add(libvirttest.On(tc.call), func(string, func() error) error {
			w.daemons[hostA].SetRoom(16<<20, tc.room)
			return libvirt.Error{Code: uint32(tc.code), Message: "no words that say why"}
		})
		err := p.Create(t.Context(), req, ref)
		expect(t, tc.reason, err, tc.class, "", "no words that say why")
		if full := strings.Contains(err.Error(), "pool default is full"); full != (tc.class == provider.ErrQuotaExceeded) {
			t.Errorf("%s: %v", tc.reason, err)
		}
		// The half-made domain does not stand in the way of the same answer.
		expect(t, tc.reason+", again", p.Create(t.Context(), req, ref), tc.class, "")
	}
	// A seed's volume is made after the disk's.
	w := newT(t)
	p := w.provider()
	req := w.request()
	n := 0
	w.wires[hostA].Add(libvirttest.On("StorageVolCreateXML"), func(_ string, do func() error) error {
		if n++; n == 2 {
			w.daemons[hostA].SetRoom(16<<20, 0)
		}
		return do()
	})
	expect(t, "full after the disk", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrQuotaExceeded, "", "pool default is full")
	// Not to know it is no proof.
	w = newT(t)
	p = w.provider()
	n = 0
	w.wires[hostA].Add(libvirttest.On("StoragePoolGetInfo"), func(_ string, do func() error) error {
		if n++; n > 1 {
			return errLost
		}
		return do()
	})
	w.wires[hostA].Add(libvirttest.On("StorageVolCreateXML"), fails(libvirt.ErrInternalError))
	expect(t, "without figures", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrTransient, "", "StorageVolCreateXML")
}

// A pool of another kind cannot hold volumes of ours.
func TestPoolsOfOtherKinds(t *testing.T) {
	for _, tc := range []struct{ text, says string }{
		{"<pool type='logical'><name>default</name><target><path>/dev/vg</path></target></pool>", "is of type logical"},
		{"<pool type='dir'><name>default</name></pool>", "has no path"},
		{"<pool type='dir'><name>default</name><target><path></path></target></pool>", "has no path"},
	} {
		w := newT(t)
		w.daemons[hostA].SetPool(tc.text, libvirt.StoragePoolRunning)
		req := w.request()
		expect(t, tc.text, w.provider().Create(t.Context(), req, w.ref(req, 1)), provider.ErrPermanent, "", "pool default "+tc.says)
		if did := changes(w.wires[hostA].Seen()); len(did) > 0 {
			t.Errorf("%s: %v", tc.text, did)
		}
	}
	for _, kind := range []string{"fs", "netfs"} {
		w := newT(t)
		w.daemons[hostA].SetPool("<pool type='"+kind+"'><name>default</name><target><path>"+libvirttest.PoolFolder+"</path></target></pool>", libvirt.StoragePoolRunning)
		req := w.request()
		must(w.t, w.provider().Create(t.Context(), req, w.ref(req, 1)))
	}
	w := newT(t)
	w.daemons[hostA].SetPool("<pool", libvirt.StoragePoolRunning)
	req := w.request()
	expect(t, "no XML", w.provider().Create(t.Context(), req, w.ref(req, 1)), provider.ErrTransient, "", "pool default")
}
