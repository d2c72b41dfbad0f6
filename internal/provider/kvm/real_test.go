//go:build e2e

package kvm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestConformsOnARealLibvirt runs the suite of TestConforms on the two hosts of `hack/hypervisor -hosts 2`, by SSH. Its guests
// are real domains that have nothing to boot; what a DHCP server would write for them the test writes.
func TestConformsOnARealLibvirt(t *testing.T) {
	if os.Getenv("E2E_KVM_ADDRESS_2") == "" {
		t.Skip("run it with: go run ./hack/hypervisor -hosts 2 -- go test -tags e2e ./internal/provider/kvm -run OnARealLibvirt")
	}
	passed, skipped := &tally{T: providertest.Go(t), n: new([]string)}, new([]string)
	seen := &skips{T: passed, all: skipped}
	providertest.Run(seen, func(t providertest.T) *providertest.Env { return newReal(t).conformance() })
	if !t.Failed() {
		fmt.Printf("proved: %d of %d rules of the provider contract hold on a real libvirt, by SSH\n", len(*passed.n)-len(*skipped), len(*passed.n))
	}
}

// tally counts the parts that are run: a filter of the command leaves out others.
type tally struct {
	providertest.T
	n *[]string
}

func (c *tally) Run(name string, f func(providertest.T)) bool {
	return c.T.Run(name, func(t providertest.T) {
		*c.n = append(*c.n, name)
		f(t)
	})
}

// realWorld is two real hosts.
type realWorld struct {
	*world
	offset  time.Duration
	targets map[string]dial.Target
	pool    string
	network string
	hand    map[string]*libvirt.Libvirt
	folder  string
	scarce  bool
	lock    sync.Mutex
}

func newReal(t providertest.T) *realWorld {
	t.Helper()
	r := &realWorld{
		// No two rules share UIDs: leases outlive the domains that they were for.
		world: &world{t: t, boots: true, uids: int(firstUID.Add(1000)), wires: map[string]*libvirttest.Wire{hostA: {}, hostB: {}}},
		pool:  os.Getenv("E2E_KVM_POOL"), network: os.Getenv("E2E_KVM_NETWORK"),
		targets: map[string]dial.Target{}, hand: map[string]*libvirt.Libvirt{},
	}
	for name, suffix := range map[string]string{hostA: "", hostB: "_2"} {
		r.targets[name] = dial.Target{
			Address: os.Getenv("E2E_KVM_ADDRESS" + suffix), User: os.Getenv("E2E_KVM_USER" + suffix), KeyFile: os.Getenv("E2E_KVM_KEY_FILE" + suffix),
			KnownHostsFile: os.Getenv("E2E_KVM_KNOWN_HOSTS_FILE" + suffix), Socket: os.Getenv("E2E_KVM_SOCKET" + suffix),
		}
		conn, err := r.targets[name].Dial(t.Context())
		must(t, err)
		client := libvirt.NewWithDialer(already{conn})
		must(t, client.Connect())
		r.hand[name] = client
		t.Cleanup(func() { _ = conn.Close() })
	}
	r.window = provider.Window{Clock: passing{r}, CallTimeout: 30 * time.Second, Visibility: kvm.Visibility, Skew: 5 * time.Second}
	r.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		http.ServeContent(rw, req, "", time.Time{}, bytes.NewReader(image))
	}))
	t.Cleanup(r.server.Close)
	t.Cleanup(r.sweep)
	return r
}

var firstUID atomic.Int64

type already struct{ net.Conn }

func (a already) Dial() (net.Conn, error) { return a.Conn, nil }

// passing is the real time and what a test has added.
type passing struct{ r *realWorld }

func (c passing) Now() time.Time {
	c.r.lock.Lock()
	defer c.r.lock.Unlock()
	return time.Now().Add(c.r.offset)
}

func (c passing) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (r *realWorld) providerOf(name string, o provider.Owner) *kvm.Provider {
	r.t.Helper()
	text := "hosts:\n"
	for _, host := range []string{hostA, hostB} {
		t := r.targets[host]
		text += fmt.Sprintf("- {name: %s, address: %q, user: %s, keyFile: %s, knownHostsFile: %s, socket: %s, pool: %s, network: %s}\n",
			host, t.Address, t.User, t.KeyFile, t.KnownHostsFile, t.Socket, r.pool, r.network)
	}
	text += fmt.Sprintf("images:\n  debian: {url: %q, sha256: %s, format: raw}\n", r.server.URL+"/debian.raw", sum(image)) +
		"machineTypes:\n  small: {vcpus: 1, memoryMiB: 64, diskGiB: 1, domainType: qemu, machine: pc}\nclients: [192.0.2.0/24]\n"
	block, err := registry.ParseBlock(kvm.Type, []byte(text))
	must(r.t, err)
	p, err := kvm.NewOn(provider.Options{Name: name, Block: block, Owner: o, Window: r.window}, kvm.Seams{
		Speak: func(c kvm.HostConfig) func(net.Conn) (session.API, error) {
			return r.wires[c.Name].Speak(func(conn net.Conn) (session.API, error) {
				api, err := session.Client(conn)
				return &altered{api, r}, err
			})
		},
		Client: r.server.Client(),
	})
	must(r.t, err)
	r.t.Cleanup(func() { _ = p.Close() })
	return p
}

// altered is a daemon whose host may have little memory.
type altered struct {
	session.API
	r *realWorld
}

func (a *altered) NodeGetMemoryStats(n, cell int32, flags uint32) ([]libvirt.NodeGetMemoryStats, int32, error) {
	stats, total, err := a.API.NodeGetMemoryStats(n, cell, flags)
	a.r.lock.Lock()
	defer a.r.lock.Unlock()
	for i := range stats {
		if a.r.scarce {
			stats[i].Value = 1 << 10
		}
	}
	return stats, total, err
}

func (r *realWorld) conformance() *providertest.Env {
	r.warmUp()
	env := r.world.environment()
	env.Provider = func(name string, o provider.Owner) provider.Provider { return r.providerOf(name, o) }
	env.Wait = r.wait
	env.Advance = r.advance
	env.Leftovers = r.leftovers
	env.Limit = 30 * time.Second
	env.Many = 3
	env.Place = r.place
	env.Stop = func(id string) { r.off(id) }
	env.Confuse = func(id string) {
		d := r.lookup(id)
		must(r.t, r.handOf(id).DomainSuspend(d))
	}
	env.Vanish = func(id string) {
		d := r.lookup(id)
		r.off(id)
		must(r.t, r.handOf(id).DomainUndefineFlags(d, 0))
		r.removeVolumes(id)
	}
	env.LoseMain = func(id string) {
		d := r.lookup(id)
		r.off(id)
		must(r.t, r.handOf(id).DomainUndefineFlags(d, 0))
	}
	env.ExhaustQuota = func() func() {
		set := func(v bool) { r.lock.Lock(); defer r.lock.Unlock(); r.scarce = v }
		set(true)
		return func() { set(false) }
	}
	return env
}

func (r *realWorld) warmUp() {
	r.t.Helper()
	p := r.providerOf("warm", owner)
	for _, zone := range []string{hostA, hostB} {
		req := r.request()
		req.Placement.Zone = zone
		var err error
		for range 5000 {
			if _, err = p.Plan(r.t.Context(), req); err == nil {
				break
			}
			must(r.t, pause(r.t.Context()))
		}
		must(r.t, err)
	}
	must(r.t, p.Close())
}

func (r *realWorld) handOf(id string) *libvirt.Libvirt { return r.hand[strings.Split(id, "/")[1]] }

func (r *realWorld) lookup(id string) libvirt.Domain {
	d, err := r.handOf(id).DomainLookupByName(nameIn(id))
	must(r.t, err)
	return d
}

func nameIn(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }

func (r *realWorld) off(id string) {
	must(r.t, r.handOf(id).DomainDestroy(r.lookup(id)))
}

func (r *realWorld) volumesOf(host string) (out []libvirt.StorageVol) {
	p, err := r.hand[host].StoragePoolLookupByName(r.pool)
	must(r.t, err)
	all, _, err := r.hand[host].StoragePoolListAllVolumes(p, 1, 0)
	must(r.t, err)
	for _, v := range all {
		if strings.HasPrefix(v.Name, "proxy-") {
			out = append(out, v)
		}
	}
	return out
}

func (r *realWorld) removeVolumes(id string) {
	host := strings.Split(id, "/")[1]
	for _, v := range r.volumesOf(host) {
		if strings.HasPrefix(v.Name, nameIn(id)+".") {
			must(r.t, r.hand[host].StorageVolDelete(v, 0))
		}
	}
}

func (r *realWorld) leftovers(context.Context) (left []string, err error) {
	for _, host := range []string{hostA, hostB} {
		all, _, err := r.hand[host].ConnectListAllDomains(1, 0)
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			left = append(left, fmt.Sprintf("hosts/%s/domains/%s domain %s", host, d.Name, uuid.UUID(d.UUID)))
		}
		for _, v := range r.volumesOf(host) {
			name, _, _ := strings.Cut(v.Name, ".")
			left = append(left, fmt.Sprintf("hosts/%s/domains/%s volume %s", host, name, v.Name))
		}
	}
	slices.Sort(left)
	return left, nil
}

func (r *realWorld) place(id string) func() bool {
	hand := r.handOf(id)
	desc := libvirtxml.Domain{
		Type: "qemu", Name: nameIn(id), Memory: &libvirtxml.DomainMemory{Value: 64, Unit: "MiB"},
		OS: &libvirtxml.DomainOS{Type: &libvirtxml.DomainOSType{Type: "hvm"}},
	}
	text, err := desc.Marshal()
	must(r.t, err)
	d, err := hand.DomainDefineXML(text)
	must(r.t, err)
	before, err := hand.DomainGetXMLDesc(d, 0)
	must(r.t, err)
	return func() bool {
		now, err := hand.DomainGetXMLDesc(d, 0)
		return err == nil && now == before
	}
}

func (r *realWorld) advance(d time.Duration) {
	r.lock.Lock()
	r.offset += d
	r.lock.Unlock()
	r.arrive(passing{r}.Now())
}

// wait lets a little time pass. Domains that run and have no lease get one.
func (r *realWorld) wait(ctx context.Context) error {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	r.advance(500 * time.Millisecond)
	r.mu.Lock()
	boots := r.boots
	r.mu.Unlock()
	if boots {
		return r.lease()
	}
	return nil
}

// lease writes what libvirt's helper of dnsmasq would.
func (r *realWorld) lease() error {
	hand := r.hand[hostA]
	all, _, err := hand.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
	if err != nil {
		return err
	}
	if r.folder == "" {
		n, err := hand.NetworkLookupByName(r.network)
		if err != nil {
			return err
		}
		bridge, err := hand.NetworkGetBridgeName(n)
		if err != nil {
			return err
		}
		r.folder = filepath.Join("/var/lib/libvirt/dnsmasq", bridge+".status")
	}
	var leases []map[string]any
	if data, err := os.ReadFile(r.folder); err == nil && len(bytes.TrimSpace(data)) > 0 {
		if err := json.Unmarshal(data, &leases); err != nil {
			return err
		}
	}
	changed := false
	for _, d := range all {
		text, err := hand.DomainGetXMLDesc(d, 0)
		if err != nil {
			continue
		}
		var desc libvirtxml.Domain
		if err := desc.Unmarshal(text); err != nil || desc.Devices == nil || len(desc.Devices.Interfaces) == 0 {
			continue
		}
		mac := desc.Devices.Interfaces[0].MAC.Address
		if slices.ContainsFunc(leases, func(l map[string]any) bool { return l["mac-address"] == mac }) {
			continue
		}
		n := len(leases)
		leases = append(leases, map[string]any{
			"ip-address": fmt.Sprintf("10.77.%d.%d", 100+n/250, 2+n%250), "mac-address": mac, "expiry-time": time.Now().Add(24 * time.Hour).Unix(),
		})
		changed = true
	}
	if !changed {
		return nil
	}
	data, err := json.Marshal(leases)
	if err != nil {
		return err
	}
	return os.WriteFile(r.folder, data, 0o644)
}

// sweep removes what a rule has left.
func (r *realWorld) sweep() {
	for host, hand := range r.hand {
		all, _, err := hand.ConnectListAllDomains(1, 0)
		must(r.t, err)
		for _, d := range all {
			_ = hand.DomainDestroy(d)
			must(r.t, hand.DomainUndefineFlags(d, 0))
		}
		for _, v := range r.volumesOf(host) {
			must(r.t, hand.StorageVolDelete(v, 0))
		}
	}
}
