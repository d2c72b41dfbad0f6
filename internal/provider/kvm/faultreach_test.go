package kvm_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skeema/knownhosts"
	xssh "golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

func silentHosts(silent func(*wiretest.Call)) map[string]func(*hypervisor) {
	return map[string]func(*hypervisor){
		"accepts":               func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.Accept, Do: sshtest.Silence}) },
		"before authentication": func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.KeyExchange, Do: sshtest.Silence}) },
		"stalls after it":       func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.Auth, Do: sshtest.Silence}) },
		"at the channel":        func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.Channel, Do: sshtest.Silence}) },
		"libvirt says nothing":  func(h *hypervisor) { h.libvirt.SetFault(on("AuthList", silent)) },
		"libvirt does not open": func(h *hypervisor) { h.libvirt.SetFault(on("ConnectOpen", silent)) },
		"a part of its answer":  func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.ToClient, Do: sshtest.Silence, After: 10}) },
	}
}

// unlike returns a line of known_hosts with a key that the host does not have.
func (h *hypervisor) unlike(kind sshtest.Kind) string {
	return knownhosts.Line([]string{h.Address()}, sshtest.NewKey(h.t, kind).PublicKey())
}

func (h *hypervisor) line() string { return knownhosts.Line([]string{h.Address()}, h.HostKey()) }

// What a host is reached by, and what becomes of it where that does not fit: the class of its errors, and the reason of its status.
func TestReaching(t *testing.T) {
	for _, tc := range []struct {
		name   string
		do     func(h *hypervisor)
		class  error // nil where it works
		reason string
	}{
		{"its key at [host]:port", func(*hypervisor) {}, nil, provider.CheckReachable},
		{"plain and hashed", func(h *hypervisor) {
			h.know(h.line(), xknownhosts.HashHostname(xknownhosts.Normalize(h.Address()))+" "+key(h.HostKey()))
		}, nil, provider.CheckReachable},
		{"hashed", func(h *hypervisor) {
			h.know(xknownhosts.HashHostname(xknownhosts.Normalize(h.Address())) + " " + key(h.HostKey()))
		}, nil, provider.CheckReachable},
		{"another hashed", func(h *hypervisor) {
			h.know(xknownhosts.HashHostname(xknownhosts.Normalize(h.Address())) + " " + key(sshtest.NewKey(h.t, sshtest.Ed25519).PublicKey()))
		}, provider.ErrDenied, dial.HostKeyMismatch},
		{"ed25519 of several", func(h *hypervisor) {
			ed := h.HostKey()
			h.Change(func(o *sshtest.Options) {
				o.HostKeys = append([]xssh.Signer{sshtest.NewKey(h.t, sshtest.RSA), sshtest.NewKey(h.t, sshtest.ECDSA)}, o.HostKeys...)
			})
			h.know(knownhosts.Line([]string{h.Address()}, ed))
		}, nil, provider.CheckReachable},
		{"ed25519, and it has none", func(h *hypervisor) {
			h.Change(func(o *sshtest.Options) { o.HostKeys = []xssh.Signer{sshtest.NewKey(h.t, sshtest.RSA)} })
		}, provider.ErrDenied, dial.HostKeyMismatch},
		{"another key", func(h *hypervisor) { h.know(h.unlike(sshtest.Ed25519)) }, provider.ErrDenied, dial.HostKeyMismatch},
		{"none of it", func(h *hypervisor) { h.know(strings.Replace(h.unlike(sshtest.Ed25519), "127.0.0.1", "192.0.2.1", 1)) }, provider.ErrDenied, dial.HostKeyUnknown},
		{"without its port", func(h *hypervisor) { h.know("127.0.0.1 " + key(h.HostKey())) }, provider.ErrDenied, dial.HostKeyUnknown},
		{"revoked", func(h *hypervisor) { h.know("@revoked "+h.line(), h.line()) }, provider.ErrDenied, dial.HostKeyRevoked},
		{"no known_hosts", func(h *hypervisor) { remove(h.t, h.knownHosts) }, provider.ErrDenied, dial.KnownHostsUnreadable},
		{"an empty one", func(h *hypervisor) { h.know() }, provider.ErrDenied, dial.KnownHostsUnreadable},
		{"no key", func(h *hypervisor) { remove(h.t, h.keyFile) }, provider.ErrDenied, dial.KeyUnreadable},
		{"a key that is none", func(h *hypervisor) { h.write(h.keyFile, []byte("secret")) }, provider.ErrDenied, dial.KeyUnreadable},
		{"a key that is not admitted", func(h *hypervisor) {
			data, _ := sshtest.NewKeyFile(h.t, sshtest.Ed25519, "")
			h.write(h.keyFile, data)
		}, provider.ErrDenied, dial.SSHAuthFailed},
		{"another user", func(h *hypervisor) { h.Change(func(o *sshtest.Options) { o.User = "root" }) }, provider.ErrDenied, dial.SSHAuthFailed},
		{"no server", func(h *hypervisor) { h.Close() }, provider.ErrTransient, dial.Unreachable},
		{"another server", func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.Accept, Do: sshtest.Babble}) }, provider.ErrTransient, dial.SSHHandshakeFailed},
		{"no forwarding", func(h *hypervisor) { h.SetFault(sshtest.Fault{At: sshtest.Channel, Do: sshtest.Prohibit}) }, provider.ErrTransient, dial.LibvirtUnreachable},
		{"no libvirtd", func(h *hypervisor) { h.stop() }, provider.ErrTransient, dial.LibvirtUnreachable},
		{"hangs up after some bytes", func(h *hypervisor) {
			h.SetFault(sshtest.Fault{At: sshtest.ToClient, Do: sshtest.Cut, After: 40})
		}, provider.ErrTransient, provider.CheckUnreachable},
		{"no libvirt", func(h *hypervisor) {
			h.libvirt.SetFault(on("AuthList", func(c *wiretest.Call) { c.Conn.Send([]byte("220 mail.example ESMTP\r\n")) }))
		}, provider.ErrTransient, provider.CheckUnreachable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newT(t)
			all := w.overSSH(t)
			all[hostA].t = t
			tc.do(all[hostA])
			p := w.through(all, hostA)
			s := checked(t, p, hostA)
			if s.Ready != (tc.class == nil) || s.Reason != tc.reason || tc.class != nil && s.Message == "" {
				t.Errorf("Check: ready %t, %s: %s", s.Ready, s.Reason, s.Message)
			}
			req := w.request()
			ref := w.ref(req, 1)
			mark := ""
			if tc.class == provider.ErrTransient {
				mark = provider.ReasonUnreachable
			}
			for what, err := range map[string]error{
				"Plan": second(p.Plan(t.Context(), req)), "Get": second(p.Get(t.Context(), ref)), "List": second(p.ListByTag(t.Context())),
				"Create": p.Create(t.Context(), req, ref), "Delete": p.Delete(t.Context(), ref),
			} {
				if tc.class == nil {
					must(w.t, err)
				} else {
					expect(t, what, err, tc.class, mark)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("%s tells of the key: %v", what, err)
				}
			}
		})
	}
}

func key(k xssh.PublicKey) string { return strings.TrimSpace(string(xssh.MarshalAuthorizedKey(k))) }

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// A key that is refused is not tried again at once, and another one works without a restart.
func TestARotatedKey(t *testing.T) {
	w := newT(t)
	all := w.overSSH(t)
	h := all[hostA]
	p := w.through(all, hostA)
	_, ref := w.made(p)
	tries := func() int { return len(h.Users()) }
	get := func(when string, class error) {
		t.Helper()
		_, err := p.Get(t.Context(), ref)
		if class == nil {
			must(w.t, err)
			return
		}
		expect(t, when, err, class, "", "authorized_keys")
	}
	// The host admits another key now. Whoever is connected stays so.
	data, next := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
	h.Change(func(o *sshtest.Options) { o.Authorized = []xssh.PublicKey{next.PublicKey()} })
	get("connected", nil)
	before := tries()
	h.CutAll()
	w.until(func() bool { return h.Open() == 0 })
	for range 20 {
		if _, err := p.Get(t.Context(), ref); provider.Class(err) == provider.ErrDenied {
			break
		}
	}
	for range 50 {
		get("refused", provider.ErrDenied)
	}
	if n := tries() - before; n != 1 {
		t.Errorf("the key was tried %d times", n)
	}
	if s := checked(t, p, hostA); s.Reason != dial.SSHAuthFailed {
		t.Errorf("Check: %s", s.Reason)
	}
	h.write(h.keyFile, data)
	w.clock.Step(kvm.RefusedRest - time.Nanosecond)
	get("at rest", provider.ErrDenied)
	if n := tries() - before; n != 1 {
		t.Errorf("the key was tried %d times within the rest", n)
	}
	w.clock.Step(time.Nanosecond)
	get("after the rest", nil)
	if n := tries() - before; n != 2 {
		t.Errorf("keys were tried %d times", n)
	}
	if s := checked(t, p, hostA); !s.Ready {
		t.Errorf("Check: %s: %s", s.Reason, s.Message)
	}
}

// until waits for something that happens soon.
func (w *world) until(is func() bool) {
	w.t.Helper()
	for range 5000 {
		if is() {
			return
		}
		must(w.t, pause(w.t.Context()))
	}
	w.t.Fatalf("it does not happen")
}

// The SSH server and libvirtd restart, each for itself: who waits for an answer is told at once, and what comes next works.
func TestRestarts(t *testing.T) {
	w := newT(t)
	all := w.overSSH(t)
	h := all[hostA]
	p := w.through(all)
	_, ref := w.made(p)
	for name, restart := range map[string]func() (back func()){
		"sshd": func() func() {
			h.SetFault(sshtest.Fault{At: sshtest.Accept, Do: sshtest.Cut})
			h.CutAll()
			return func() { h.SetFault(sshtest.Fault{}) }
		},
		"libvirtd": func() func() {
			h.stop()
			h.libvirt.Cut()
			return func() { h.stop = h.libvirt.Listen(t, h.socket) }
		},
	} {
		at, release := w.wires[hostA].Hold(libvirttest.On("DomainGetState"))
		waiting := make(chan error, 1)
		go func() { waiting <- second(p.Get(t.Context(), ref)) }()
		<-at
		back := restart()
		expect(t, name+": one that waits", <-waiting, provider.ErrTransient, provider.ReasonUnreachable, "DomainGetState: the connection was lost")
		release()
		_, err := p.Get(t.Context(), ref)
		expect(t, name+": meanwhile", err, provider.ErrTransient, provider.ReasonUnreachable)
		if _, unread := w.list(p); len(unread) != 1 {
			t.Errorf("%s: unread are %v", name, unread)
		}
		back()
		w.expect(t, name+": back", p, ref, "Running")
	}
}
