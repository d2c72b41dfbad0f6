package kvm_test

import (
	"context"
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
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

const (
	fromAgent = libvirt.DomainInterfaceAddressesSrcAgent
	fromARP   = libvirt.DomainInterfaceAddressesSrcArp
)

func nic(mac string, addresses ...string) libvirt.DomainInterface {
	i := libvirt.DomainInterface{Name: "eth0", Hwaddr: libvirt.OptString{mac}}
	for _, a := range addresses {
		i.Addrs = append(i.Addrs, libvirt.DomainIPAddr{Addr: a})
	}
	return i
}

// guest is a domain that runs, and has no address but by the test.
type guest struct {
	*world
	p   *kvm.Provider
	d   *libvirttest.Daemon
	ref provider.Ref
	mac string
}

func newGuest(t *testing.T, extra string) *guest {
	t.Helper()
	w := newT(t)
	w.extra = extra
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	must(w.t, p.Create(t.Context(), req, ref))
	return &guest{w, p, w.daemons[hostA], ref, w.only().MAC}
}

func (g *guest) lease(mac, ip string, expires int64) {
	g.d.Lease(libvirt.NetworkDhcpLease{Mac: libvirt.OptString{mac}, Ipaddr: ip, Expirytime: expires})
}

func (g *guest) answer(source libvirt.DomainInterfaceAddressesSource, all ...libvirt.DomainInterface) {
	g.t.Helper()
	if !g.d.Answer(g.only().Name, source, all...) {
		g.t.Fatalf("there is no domain")
	}
}

func (g *guest) ip() string {
	g.t.Helper()
	inst, err := g.p.Get(g.t.Context(), g.ref)
	must(g.t, err)
	l, err := g.p.ListByTag(g.t.Context())
	must(g.t, err)
	if len(l.Instances) != 1 || l.Instances[0].IP != inst.IP {
		g.t.Errorf("%+v is listed as %+v", inst, l.Instances)
	}
	return inst.IP
}

// Each source has an address of its own: the first that knows one is believed.
func TestTheOrderOfSources(t *testing.T) {
	broken := func(w *world, calls ...string) {
		for _, call := range calls {
			w.wires[hostA].Add(libvirttest.On(call), fails(libvirt.ErrInternalError))
		}
	}
	for _, tc := range []struct {
		sources string
		change  func(*guest)
		want    string
		asked   []string // in the order in which Get asks
	}{
		{"[lease, agent, arp]", nil, "10.0.0.1", []string{"lease"}},
		{"[agent, lease, arp]", nil, "10.0.0.2", []string{"interfaces"}},
		{"[arp, lease]", nil, "10.0.0.3", []string{"interfaces"}},
		{"[]", nil, "10.0.0.1", []string{"lease"}},
		{"[lease, agent, arp]", func(g *guest) { g.d.Forget() }, "10.0.0.2", []string{"lease", "interfaces"}},
		{"[lease, agent, arp]", func(g *guest) { g.d.Forget(); g.answer(fromAgent) }, "10.0.0.3", []string{"lease", "interfaces", "interfaces"}},
		{"[lease, arp]", func(g *guest) { broken(g.world, "NetworkLookupByName") }, "10.0.0.3", []string{"interfaces"}},
		{"[lease, arp]", func(g *guest) { broken(g.world, "NetworkGetDhcpLeases") }, "10.0.0.3", []string{"lease", "interfaces"}},
		{"[agent, lease]", func(g *guest) { broken(g.world, "DomainInterfaceAddresses") }, "10.0.0.1", []string{"interfaces", "lease"}},
		{"[agent]", func(g *guest) { broken(g.world, "DomainInterfaceAddresses") }, "", []string{"interfaces"}},
	} {
		g := newGuest(t, "addressSources: "+tc.sources+"\n")
		g.lease(g.mac, "10.0.0.1", 1)
		g.answer(fromAgent, nic(g.mac, "10.0.0.2"))
		g.answer(fromARP, nic(g.mac, "10.0.0.3"))
		if tc.change != nil {
			tc.change(g)
		}
		calls := g.since(func() {
			_, err := g.p.Get(t.Context(), g.ref)
			must(g.t, err)
		})
		var asked []string
		for _, call := range calls {
			switch call {
			case "NetworkGetDhcpLeases":
				asked = append(asked, "lease")
			case "DomainInterfaceAddresses":
				asked = append(asked, "interfaces")
			}
		}
		if got := g.ip(); got != tc.want || !slices.Equal(asked, tc.asked) {
			t.Errorf("%s: %q after %v, want %q after %v", tc.sources, got, asked, tc.want, tc.asked)
		}
	}
}

// What is believed of what a source says.
func TestTheAddressThatIsChosen(t *testing.T) {
	for _, tc := range []struct {
		reason    string
		family    string
		addresses []string
		want      string
	}{
		{"IPv4 before IPv6", "", []string{"2001:db8::1", "10.0.0.1"}, "10.0.0.1"},
		{"IPv6 where there is no IPv4", "", []string{"2001:db8::1"}, "2001:db8::1"},
		{"only IPv4", "ipv4", []string{"2001:db8::1"}, ""},
		{"IPv4 of both", "ipv4", []string{"2001:db8::1", "10.0.0.1"}, "10.0.0.1"},
		{"only IPv6", "ipv6", []string{"10.0.0.1"}, ""},
		{"IPv6 of both", "ipv6", []string{"10.0.0.1", "2001:db8::1"}, "2001:db8::1"},
		{"the first", "", []string{"10.0.0.2", "10.0.0.1"}, "10.0.0.2"},
		{"IPv4 written as IPv6", "ipv4", []string{"::ffff:10.0.0.1"}, "10.0.0.1"},
		{"none that others cannot reach", "", []string{
			"127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "::1", "fe80::1", "fe80::1%eth0", "ff02::1", "::", "::ffff:127.0.0.1",
			"", "x", "10.0.0", "10.0.0.1/24", "10.0.0.256", "[2001:db8::1]",
		}, ""},
		{"the good one amongst others", "", []string{"127.0.0.1", "fe80::1", "garbage", "2001:db8::1"}, "2001:db8::1"},
		{"a private one", "ipv6", []string{"fd00::1"}, "fd00::1"},
	} {
		g := newGuest(t, "addressSources: [agent]\naddressFamily: "+fmt.Sprintf("%q", tc.family)+"\n")
		g.answer(fromAgent, nic(g.mac, tc.addresses...))
		if got := g.ip(); got != tc.want {
			t.Errorf("%s, by the agent: %q, want %q", tc.reason, got, tc.want)
		}
		g = newGuest(t, "addressFamily: "+fmt.Sprintf("%q", tc.family)+"\n")
		for _, a := range tc.addresses {
			g.lease(g.mac, a, 1)
		}
		if got := g.ip(); got != tc.want {
			t.Errorf("%s, by leases: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

// The interface is ours by its MAC address, however it is written; of several leases the newest counts.
func TestWhoseAnAddressIs(t *testing.T) {
	g := newGuest(t, "addressSources: [lease, agent]\n")
	other := "52:00:00:00:00:01"
	g.lease(other, "10.0.0.9", 99)
	g.d.Lease(libvirt.NetworkDhcpLease{Ipaddr: "10.0.0.8", Expirytime: 99})
	g.answer(fromAgent, nic(other, "10.0.0.7"), libvirt.DomainInterface{Name: "lo", Addrs: []libvirt.DomainIPAddr{{Addr: "10.0.0.6"}}})
	if got := g.ip(); got != "" {
		t.Errorf("it has the address %q of another", got)
	}
	g.answer(fromAgent, nic(other, "10.0.0.7"), nic(strings.ToUpper(g.mac), "10.0.0.2"))
	if got := g.ip(); got != "10.0.0.2" {
		t.Errorf("by the agent: %q", got)
	}
	g.lease(strings.ToUpper(g.mac), "10.0.0.3", 10)
	if got := g.ip(); got != "10.0.0.3" {
		t.Errorf("by its lease: %q", got)
	}
	g.lease(g.mac, "10.0.0.4", 12)
	g.lease(g.mac, "10.0.0.5", 11)
	if got := g.ip(); got != "10.0.0.4" {
		t.Errorf("by the newest lease: %q", got)
	}
	// The record may be written otherwise, too.
	g.d.SetMetadata(g.only().Name, strings.Replace(g.only().Metadata, g.mac, strings.ToUpper(g.mac), 1))
	if got := g.ip(); got != "10.0.0.4" {
		t.Errorf("with a record in capitals: %q", got)
	}
}

// A host with a bridge has no leases to ask for.
func TestABridge(t *testing.T) {
	w := newT(t)
	p, err := w.open(entry, owner, strings.Replace(w.block(), "{name: hv-a, socket: /run/a}", "{name: hv-a, bridge: br0}", 1))
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	_, ref := w.made(p)
	e := w.only()
	w.daemons[hostA].Answer(e.Name, fromAgent, nic(e.MAC, "192.0.2.7"))
	w.expect(t, "by the agent", p, ref, "Running")
	if calls := w.wires[hostA].Seen(); slices.Contains(calls, "NetworkLookupByName") {
		t.Errorf("%v", calls)
	}
	if !strings.Contains(e.XML, `<source bridge="br0">`) || strings.Contains(e.XML, "source network=") {
		t.Errorf("%s", e.XML)
	}
}

// Whoever gives up while an address is looked for hears that, and not that there is none.
func TestGivingUpOnAnAddress(t *testing.T) {
	w := newT(t)
	w.extra = "addressSources: [agent]\n"
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.onlyA()
		_, ref := w.made(p)
		free := make(chan struct{})
		defer close(free)
		w.wires[hostA].Add(libvirttest.On("DomainInterfaceAddresses"), func(string, func() error) error { <-free; return errLost })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.Get(ctx, ref)
		expect(t, "Get", err, provider.ErrTransient, "", "deadline exceeded")
	})
}
