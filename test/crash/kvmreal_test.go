//go:build e2e

package crash

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// TestMatrixOnARealLibvirt kills the operator around calls to the two hosts of `hack/hypervisor -hosts 2`, which it reaches by
// SSH. Domains are real and have nothing to boot. They take half a second each, so this is a sample of the matrix, of which
// CRASH_SEED draws another one; CRASH_REAL=whole takes all of it, which lasts hours. Each flow is a test of its own for -run.
func TestMatrixOnARealLibvirt(t *testing.T) {
	if os.Getenv("E2E_KVM_ADDRESS_2") == "" {
		t.Skip("run it with: go run ./hack/hypervisor -hosts 2 -- go test -tags e2e ./test/crash -run OnARealLibvirt")
	}
	r := &realMatrix{hosts: map[string]*realHost{hostA: newRealHost(t, ""), hostB: newRealHost(t, "_2")}, seed: crashSeed(t), told: map[string]int{}}
	r.on = onHosts("libvirt", func(host string) *daemon { return &daemon{hypervisor: r.hosts[host], real: true} })
	switch whole := os.Getenv("CRASH_REAL"); whole {
	case "whole":
		for _, vis := range r.on.visible {
			for _, f := range flows() {
				t.Run(fmt.Sprintf("%s/%s", vis.name, f.name), func(t *testing.T) { r.around(t, f.name, vis, 1) })
			}
		}
		fmt.Printf("proved: the operator killed around every effect of %d flows on a real libvirt, %d times: %v\n", len(flows()), r.runs, r.told)
	case "":
		const sample = 3
		r.n = int(r.seed % sample)
		for _, f := range []string{"create", "zone edit during delete", "delete during create"} {
			t.Run(f, func(t *testing.T) { r.around(t, f, r.on.visible[1], sample) })
		}
		for _, m := range mutating {
			if r.told[m.name] == 0 {
				t.Errorf("no death around %q", m.name)
			}
		}
		if !t.Failed() {
			fmt.Printf("proved: the operator killed around calls to a real libvirt, %d times: always one domain, and none afterwards\n", r.runs)
		}
	default:
		t.Fatalf("CRASH_REAL=%q: neither whole nor empty", whole)
	}
}

// realMatrix is the matrix on real hosts.
type realMatrix struct {
	hosts map[string]*realHost
	on    ground
	seed  uint64
	n     int            // points and moments seen
	runs  int            // those that were run
	told  map[string]int // by what was to happen
}

// run tells the flow f and returns its effects.
func (r *realMatrix) run(f string, vis visibility, arrange func(*world)) ([]string, error) {
	for _, h := range r.hosts {
		h.sweep()
	}
	w := newWorld(r.on, vis, r.seed)
	defer w.close()
	arrange(w)
	if err := w.tell(again(f)); err != nil {
		return nil, fmt.Errorf("%w\neffects: %q\n%s", err, w.effects, strings.Join(w.backend.history(), "\n"))
	}
	return w.effects, nil
}

// around is like the function of that name, for one in sample; of these, writes to the API server are of interest only if all
// are run.
func (r *realMatrix) around(t *testing.T, f string, vis visibility, sample int) {
	effects, err := r.run(f, vis, func(*world) {})
	if err != nil {
		t.Fatalf("without a death: %v", err)
	}
	for i, name := range effects {
		moments := []moment{before, unanswered, answered, overtaken}
		if strings.HasPrefix(name, "write") {
			if moments = moments[:3]; sample > 1 {
				continue
			}
		}
		for _, m := range moments {
			if r.n++; r.n%sample != 0 {
				continue
			}
			if _, err := r.run(f, vis, func(w *world) { w.killAt, w.when = i, m }); err != nil {
				t.Errorf("death at effect %d (%s), %s (seed %d): %v", i, name, m, r.seed, err)
			}
			r.told[name]++
			r.runs++
		}
	}
}

// realHost is one of them.
type realHost struct {
	target dial.Target
	pool   string
	hand   *libvirt.Libvirt

	mu     sync.Mutex
	leases []libvirt.NetworkDhcpLease
}

func newRealHost(t *testing.T, suffix string) *realHost {
	t.Helper()
	h := &realHost{pool: os.Getenv("E2E_KVM_POOL"), target: dial.Target{
		Address: os.Getenv("E2E_KVM_ADDRESS" + suffix), User: os.Getenv("E2E_KVM_USER" + suffix), KeyFile: os.Getenv("E2E_KVM_KEY_FILE" + suffix),
		KnownHostsFile: os.Getenv("E2E_KVM_KNOWN_HOSTS_FILE" + suffix), Socket: os.Getenv("E2E_KVM_SOCKET" + suffix),
	}}
	conn, err := h.Dial()
	h.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	h.hand = libvirt.NewWithDialer(already{conn})
	h.must(h.hand.Connect())
	t.Cleanup(h.sweep)
	return h
}

type already struct{ net.Conn }

func (a already) Dial() (net.Conn, error) { return a.Conn, nil }

// must panics, for it is not the test's goroutine alone that asks.
func (h *realHost) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (h *realHost) Dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return h.target.Dial(ctx)
}

// Speak adds what nobody but a guest that boots would ask the DHCP server for, and gives this host's pool and network the
// names that the world knows them by.
func (h *realHost) Speak(c net.Conn) (session.API, error) {
	api, err := session.Client(c)
	return &leasing{api, h}, err
}

type leasing struct {
	session.API
	h *realHost
}

func (l *leasing) NetworkLookupByName(string) (libvirt.Network, error) {
	return l.API.NetworkLookupByName(os.Getenv("E2E_KVM_NETWORK"))
}

func (l *leasing) NetworkGetDhcpLeases(n libvirt.Network, mac libvirt.OptString, need int32, flags uint32) ([]libvirt.NetworkDhcpLease, uint32, error) {
	if _, _, err := l.API.NetworkGetDhcpLeases(n, mac, need, flags); err != nil {
		return nil, 0, err
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return slices.Clone(l.h.leases), uint32(len(l.h.leases)), nil
}

func (l *leasing) StoragePoolLookupByName(string) (libvirt.StoragePool, error) {
	return l.API.StoragePoolLookupByName(l.h.pool)
}

func (l *leasing) DomainDefineXMLFlags(text string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	text = strings.Replace(text, `<source network="default">`, `<source network="`+os.Getenv("E2E_KVM_NETWORK")+`">`, 1)
	return l.API.DomainDefineXMLFlags(text, flags)
}

func (h *realHost) Lease(l libvirt.NetworkDhcpLease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases = append(h.leases, l)
}

func (h *realHost) Domains() (out []libvirttest.Entry) {
	all, _, err := h.hand.ConnectListAllDomains(1, 0)
	h.must(err)
	for _, d := range all {
		text, err := h.hand.DomainGetXMLDesc(d, 0)
		if err != nil {
			continue // it has gone meanwhile
		}
		state, _, err := h.hand.DomainGetState(d, 0)
		if err != nil {
			continue
		}
		var desc libvirtxml.Domain
		h.must(desc.Unmarshal(text))
		e := libvirttest.Entry{Name: d.Name, UUID: uuid.UUID(d.UUID).String(), XML: text, State: libvirt.DomainState(state)}
		if desc.Metadata != nil {
			e.Metadata = strings.TrimSpace(desc.Metadata.XML)
		}
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b libvirttest.Entry) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (h *realHost) all() (libvirt.StoragePool, []libvirt.StorageVol) {
	p, err := h.hand.StoragePoolLookupByName(h.pool)
	h.must(err)
	all, _, err := h.hand.StoragePoolListAllVolumes(p, 1, 0)
	h.must(err)
	return p, all
}

func (h *realHost) Volumes() (names []string) {
	_, all := h.all()
	for _, v := range all {
		names = append(names, v.Name)
	}
	slices.Sort(names)
	return names
}

// Volume returns as many bytes as the volume has. What is in it is not read: the client library's downloads may hang.
func (h *realHost) Volume(name string) (content []byte, ok bool) {
	_, all := h.all()
	for _, v := range all {
		if v.Name != name {
			continue
		}
		_, capacity, _, err := h.hand.StorageVolGetInfo(v)
		h.must(err)
		if strings.HasSuffix(name, ".iso") {
			content = make([]byte, capacity)
		}
		return content, true
	}
	return nil, false
}

func (h *realHost) lookup(name string) (libvirt.Domain, bool) {
	d, err := h.hand.DomainLookupByName(name)
	return d, err == nil
}

// Set switches off; nothing else is asked for in these flows.
func (h *realHost) Set(name string, state libvirt.DomainState, _ int32) bool {
	d, ok := h.lookup(name)
	if !ok || state != libvirt.DomainShutoff {
		return false
	}
	return h.hand.DomainDestroy(d) == nil
}

func (h *realHost) Undefine(name string) bool {
	d, ok := h.lookup(name)
	return ok && h.hand.DomainUndefine(d) == nil
}

func (h *realHost) Restart() {
	for _, d := range h.Domains() {
		h.Set(d.Name, libvirt.DomainShutoff, 0)
	}
}

func (h *realHost) AddVolume(name string, capacity uint64) {
	p, _ := h.all()
	if slices.Contains(h.Volumes(), name) {
		return
	}
	desc := libvirtxml.StorageVolume{
		Name: name, Capacity: &libvirtxml.StorageVolumeSize{Value: capacity}, Allocation: &libvirtxml.StorageVolumeSize{},
		Target: &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: "raw"}},
	}
	text, err := desc.Marshal()
	h.must(err)
	_, err = h.hand.StorageVolCreateXML(p, text, 0)
	h.must(err)
}

func (h *realHost) RemoveVolume(name string) {
	_, all := h.all()
	for _, v := range all {
		if v.Name == name {
			h.must(h.hand.StorageVolDelete(v, 0))
		}
	}
}

// sweep removes all that a run has left, and the base images of other tests.
func (h *realHost) sweep() {
	for _, d := range h.Domains() {
		h.Set(d.Name, libvirt.DomainShutoff, 0)
		h.Undefine(d.Name)
	}
	for _, v := range h.Volumes() {
		if strings.HasPrefix(v, "proxy-") || strings.HasPrefix(v, "epx-base-") && v != baseVolume && v != baseMarker {
			h.RemoveVolume(v)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leases = nil
}
