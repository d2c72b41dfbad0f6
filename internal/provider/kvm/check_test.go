package kvm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
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

func TestTheCheckOfHosts(t *testing.T) {
	w := newT(t)
	p := w.provider()
	w.on(p, hostB)
	w.daemons[hostB].SetRoom(4<<20, 10<<30)
	w.daemons[hostA].SetStats(stat("total", 8<<20), stat("free", 1<<20), stat("buffers", 2<<20), stat("cached", 3<<20))
	got := p.Check(t.Context())
	if len(got) != 2 || got[0].Target != hostA || got[1].Target != hostB {
		t.Fatalf("%+v", got)
	}
	for i, want := range []map[string]string{
		{"libvirt": "9.0.0", "hypervisor": "7.2.0", "memoryTotalMiB": "8192", "memoryFreeMiB": "6144", "domains": "0", "poolCapacityGiB": "2048", "poolFreeGiB": "1024"},
		{"libvirt": "9.0.0", "hypervisor": "7.2.0", "memoryTotalMiB": "32768", "memoryFreeMiB": "4096", "domains": "1", "poolCapacityGiB": "2048", "poolFreeGiB": "10"},
	} {
		s := got[i]
		if !s.Ready || s.Reason != provider.CheckReachable || s.Message != "" || s.Latency <= 0 || !maps.Equal(s.Details, want) {
			t.Errorf("%+v, want details %v", s, want)
		}
	}
}

func TestReasonsOfACheck(t *testing.T) {
	code := func(call string, code libvirt.ErrorNumber) func(*world) {
		return func(w *world) { w.wires[hostA].Add(libvirttest.On(call), fails(code)) }
	}
	dialing := func(err error) func(*world) {
		return func(w *world) {
			w.dial = func(_ context.Context, host string) (net.Conn, error) {
				if host == hostA {
					return nil, err
				}
				return w.daemons[host].Dial()
			}
		}
	}
	opening := func(err error) func(*world) {
		return func(w *world) {
			w.speak = func(host string, next speaking) speaking {
				if host != hostA {
					return next
				}
				return func(net.Conn) (session.API, error) { return nil, err }
			}
		}
	}
	host := func(more string) func(*world) {
		return func(w *world) { w.hostA = more }
	}
	pool := func(text string, state libvirt.StoragePoolState) func(*world) {
		return func(w *world) { w.daemons[hostA].SetPool(text, state) }
	}
	type row struct {
		reason string
		spoil  func(*world)
		want   string
		says   string
		half   bool // some details are there
	}
	rows := []row{
		{"another host", host("hostUUID: 00000000-0000-4000-8000-000000000000"), kvm.CheckHostMismatch, "another host answers", false},
		{"no pool", host("pool: other"), kvm.CheckPoolNotFound, "'other'", true},
		{"no network", host("network: other"), kvm.CheckNetworkNotFound, "'other'", true},
		{"a pool that is off", pool("", libvirt.StoragePoolInactive), kvm.CheckPoolUnusable, "not running", true},
		{"a pool of another kind", pool("<pool type='rbd'/>", libvirt.StoragePoolRunning), kvm.CheckPoolUnusable, "rbd", true},
		{"no authorisation", code("ConnectGetLibVersion", libvirt.ErrAuthFailed), provider.CheckUnauthorized, "", false},
		{"it was cancelled", code("ConnectGetVersion", libvirt.ErrAuthCancelled), provider.CheckUnauthorized, "", true},
		{"no way to get it", opening(libvirt.Error{Code: uint32(libvirt.ErrAuthUnavailable), Message: "polkit"}), provider.CheckUnauthorized, "polkit", false},
		{"read-only", code("StoragePoolLookupByName", libvirt.ErrOperationDenied), provider.CheckForbidden, "", true},
		{"not allowed", code("ConnectListAllDomains", libvirt.ErrAccessDenied), provider.CheckForbidden, "", true},
		{"an error", code("StoragePoolGetInfo", libvirt.ErrInternalError), provider.CheckAPIError, "StoragePoolGetInfo", true},
		{"no statistics", func(w *world) { w.daemons[hostA].SetStats() }, provider.CheckAPIError, "statistics", true},
		{"one that hangs up", opening(io.EOF), provider.CheckUnreachable, "opening", false},
		{"dialing too long", dialing(&dial.Error{Reason: dial.Timeout, Err: errors.New("by the test")}), provider.CheckTimeout, "by the test", false},
	}
	for _, reason := range []string{dial.Unreachable, dial.SSHHandshakeFailed, dial.HostKeyUnknown, dial.HostKeyMismatch, dial.HostKeyRevoked, dial.SSHAuthFailed, dial.KeyUnreadable, dial.KnownHostsUnreadable, dial.LibvirtUnreachable} {
		rows = append(rows, row{"dialing: " + reason, dialing(&dial.Error{Reason: reason, Err: errors.New("by the test")}), reason, "by the test", false})
	}
	for _, tc := range rows {
		w := newT(t)
		tc.spoil(w)
		got := w.provider().Check(t.Context())
		s := got[0]
		if s.Target != hostA || s.Ready || s.Reason != tc.want || s.Message == "" || !strings.Contains(s.Message, tc.says) || (len(s.Details) > 0) != tc.half {
			t.Errorf("%s: %+v, want %s with %q", tc.reason, s, tc.want, tc.says)
		}
		if !got[1].Ready {
			t.Errorf("%s: the other host is %+v", tc.reason, got[1])
		}
		for range 2 {
			if again := w.provider().Check(t.Context())[0]; again.Message != s.Message {
				t.Errorf("%s: %q, then %q", tc.reason, s.Message, again.Message)
			}
		}
	}
}

// A bridge is no network of libvirt's.
func TestTheCheckOfABridge(t *testing.T) {
	w := newT(t)
	w.hostA = "bridge: br0"
	w.wires[hostA].Add(libvirttest.On("NetworkLookupByName"), fails(libvirt.ErrNoNetwork))
	if got := w.provider().Check(t.Context())[0]; !got.Ready {
		t.Errorf("%+v", got)
	}
}

// A host that does not answer holds up no other, and the calls that are under way on it go on.
func TestTheCheckOfASilentHost(t *testing.T) {
	w := newT(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.provider()
		ref := w.on(p, hostA)
		var answered time.Time
		w.wires[hostB].Add(libvirttest.On("NetworkLookupByName"), func(_ string, do func() error) error {
			answered = time.Now()
			return do()
		})
		free := make(chan struct{})
		w.wires[hostA].Once(libvirttest.On("ConnectGetVersion"), func(_ string, do func() error) error { <-free; return do() })
		at, release := w.wires[hostA].Hold(libvirttest.On("DomainGetMetadata"))
		done := make(chan error, 1)
		go func() { _, err := p.Get(context.WithoutCancel(t.Context()), ref); done <- err }()
		<-at
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		got := p.Check(ctx)
		if d := time.Since(began); d != 5*time.Second || got[0].Ready || got[0].Reason != provider.CheckTimeout || !got[1].Ready || !answered.Equal(began) {
			t.Errorf("after %v, the other host after %v: %+v", d, answered.Sub(began), got)
		}
		if got[0].Details["libvirt"] == "" {
			t.Errorf("details %v", got[0].Details)
		}
		synctest.Wait()
		release()
		if err := <-done; err != nil {
			t.Errorf("the call that was under way: %v", err)
		}
		close(free)
		// Left to itself, it ends when no call may take any longer.
		hang := make(chan struct{})
		defer close(hang)
		w.wires[hostA].Once(libvirttest.On("ConnectGetVersion"), func(string, func() error) error { <-hang; return errLost })
		began = time.Now()
		if got := p.Check(t.Context()); time.Since(began) != kvm.CallLimit || got[0].Reason != provider.CheckTimeout || !strings.Contains(got[0].Message, "no answer to ConnectGetVersion") {
			t.Errorf("after %v: %+v", time.Since(began), got[0])
		}
	})
}

// A context that has ended leaves nothing to wait for.
func TestTheCheckThatComesTooLate(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, s := range p.Check(ctx) {
		if s.Ready || s.Reason != provider.CheckTimeout || len(s.Details) > 0 {
			t.Errorf("%+v", s)
		}
	}
	if n := len(w.wires[hostA].Seen()); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// Many hosts come in the order of their names, whatever theirs is in the file.
func TestTheOrderOfChecks(t *testing.T) {
	w := newT(t)
	block := strings.Replace(w.block(), "- {name: hv-a, socket: /run/a}\n- {name: hv-b, socket: /run/b}\n", "- {name: hv-b, socket: /run/b}\n- {name: hv-a, socket: /run/a}\n", 1)
	p, err := w.open(entry, owner, block)
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	for range 5 {
		got := p.Check(t.Context())
		if order := fmt.Sprint(got[0].Target, got[1].Target); order != hostA+hostB && order != hostA+" "+hostB {
			t.Errorf("order %s", order)
		}
	}
}

// One host under two names would have its domains listed twice, and one of each two deleted as surplus.
func TestOneHostUnderTwoNames(t *testing.T) {
	w := newT(t)
	w.daemons[hostB] = w.daemons[hostA]
	p := w.provider()
	_, ref := w.made(p)
	listing, err := p.ListByTag(t.Context())
	if err != nil || len(listing.Instances) != 1 || listing.Instances[0].ID != ref.ID || !slices.Equal(listing.Unread, []string{"hosts/" + hostB}) {
		t.Errorf("listed is %+v, %v", listing, err)
	}
	other := ref
	other.ID = "hosts/" + hostB + "/domains/" + provider.NameFromUID(ref.UID)
	if err := p.Delete(t.Context(), other); !errors.Is(err, provider.ErrDenied) || len(w.daemons[hostA].Domains()) != 1 {
		t.Errorf("Delete by the other name = %v, left %v", err, w.daemons[hostA].Domains())
	}
	if all := p.Check(t.Context()); len(all) != 2 || !all[0].Ready || all[1].Reason != kvm.CheckHostMismatch || !strings.Contains(all[1].Message, hostA) {
		t.Errorf("Check = %+v", all)
	}
}

// An entry may name another pool by now: the domain's own record says where its volumes are.
func TestThePoolOfOld(t *testing.T) {
	w := newT(t)
	_, ref := w.made(w.provider())
	p, err := w.open(entry, owner, strings.Replace(w.block(), "{name: hv-a,", "{name: hv-a, pool: elsewhere,", 1))
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	must(w.t, p.Delete(t.Context(), ref))
	if d, v := w.daemons[hostA].Domains(), w.instances(); len(d)+len(v) > 0 {
		t.Errorf("left are %v and %v", d, v)
	}
}
