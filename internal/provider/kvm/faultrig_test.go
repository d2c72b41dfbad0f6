package kvm_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skeema/knownhosts"
	xssh "golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// hypervisor is a host with an SSH server, behind which a daemon speaks libvirt's protocol.
type hypervisor struct {
	*sshtest.Server
	t       *testing.T
	libvirt *wiretest.Server
	stop    func() // listening on the socket

	socket, keyFile, knownHosts string
}

// overSSH makes a hypervisor of each of the world's hosts.
func (w *world) overSSH(t *testing.T) map[string]*hypervisor {
	t.Helper()
	out := map[string]*hypervisor{}
	for name, d := range w.daemons {
		api, err := d.Speak(nil)
		must(w.t, err)
		dir := t.TempDir()
		h := &hypervisor{
			t: t, libvirt: wiretest.New(t, w.wires[name].Over(api)),
			socket: filepath.Join(dir, "s"), keyFile: filepath.Join(dir, "id"), knownHosts: filepath.Join(dir, "known_hosts"),
		}
		h.stop = h.libvirt.Listen(t, h.socket)
		data, key := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
		h.Server = sshtest.Start(t, sshtest.Options{Authorized: []xssh.PublicKey{key.PublicKey()}})
		h.write(h.keyFile, data)
		h.know(knownhosts.Line([]string{h.Address()}, h.HostKey()))
		out[name] = h
	}
	return out
}

func (h *hypervisor) write(path string, data []byte) {
	h.t.Helper()
	// By a rename, as rotations do.
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		h.t.Fatal(err)
	}
}

// know replaces the known_hosts file.
func (h *hypervisor) know(lines ...string) {
	h.t.Helper()
	h.write(h.knownHosts, []byte(strings.Join(lines, "\n")+"\n"))
}

func (h *hypervisor) config(name string) string {
	return fmt.Sprintf("- {name: %s, address: %q, user: %s, keyFile: %q, knownHostsFile: %q, socket: %q}\n",
		name, h.Address(), sshtest.DefaultUser, h.keyFile, h.knownHosts, h.socket)
}

// through returns a provider that reaches the hosts by SSH, as operators do; only some of them where names are given.
func (w *world) through(all map[string]*hypervisor, names ...string) *kvm.Provider {
	w.t.Helper()
	block := w.block()
	for _, name := range []string{hostA, hostB} {
		with := all[name].config(name)
		if len(names) > 0 && names[0] != name {
			with = ""
		}
		line := regexp.MustCompile(`(?m)^- \{name: ` + name + `[^}]*\}\n`)
		if !line.MatchString(block) {
			w.t.Fatalf("host %s is not in\n%s", name, block)
		}
		block = line.ReplaceAllLiteralString(block, with)
	}
	b, err := registry.ParseBlock(kvm.Type, []byte(block))
	must(w.t, err)
	p, err := kvm.NewOn(provider.Options{Name: entry, Block: b, Owner: owner, Window: w.window}, kvm.Seams{Client: w.server.Client()})
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

// inBubble returns a provider that reaches servers of libvirt's protocol in memory, in which time passes only in a bubble of
// package synctest.
func (w *world) inBubble(t *testing.T) (*kvm.Provider, map[string]*wiretest.Server) {
	t.Helper()
	servers := map[string]*wiretest.Server{}
	for name, d := range w.daemons {
		api, err := d.Speak(nil)
		must(w.t, err)
		servers[name] = wiretest.New(t, w.wires[name].Over(api))
	}
	b, err := registry.ParseBlock(kvm.Type, []byte(w.block()))
	must(w.t, err)
	p, err := kvm.NewOn(provider.Options{Name: entry, Block: b, Owner: owner, Window: w.window}, kvm.Seams{
		Dial: func(c kvm.HostConfig) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) { return servers[c.Name].Dial() }
		},
	})
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p, servers
}

// checked is what Check says of a host.
func checked(t *testing.T, p *kvm.Provider, host string) provider.TargetStatus {
	t.Helper()
	for _, s := range p.Check(t.Context()) {
		if s.Target == host {
			return s
		}
	}
	t.Fatalf("no status of %s", host)
	return provider.TargetStatus{}
}

// on is a fault of the calls of that name.
func on(name string, f func(*wiretest.Call)) func(*wiretest.Call) bool {
	return func(c *wiretest.Call) bool {
		if c.Name != name {
			return false
		}
		f(c)
		return true
	}
}
