package kvm

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// Sources of addresses.
const (
	sourceLease = "lease"
	sourceAgent = "agent"
	sourceARP   = "arp"
)

const (
	// sourceLimit bounds what one source may take. A guest that is booting has no agent that would answer.
	sourceLimit = 3 * time.Second
	// agentPatience bounds in all what the domains of one list wait for a place to ask their agents; a single one waits for
	// sourceLimit.
	agentPatience = 10 * time.Second
	// agentSeconds is what the daemon itself gives a guest's agent.
	agentSeconds = 2
)

// lookup finds the addresses of one host's domains. The leases, which come for all at once, are read once.
type lookup struct {
	host   *host
	config *Config

	mu       sync.Mutex
	networks map[string]*leases
	// patience ends some time after the first who has to wait for a place.
	patience func() context.Context
}

// newLookup returns one for the life of ctx.
func newLookup(ctx context.Context, h *host, c *Config, limit time.Duration) *lookup {
	return &lookup{host: h, config: c, patience: sync.OnceValue(func() context.Context {
		patience, cancel := context.WithTimeout(ctx, limit)
		context.AfterFunc(ctx, cancel)
		return patience
	})}
}

// errUnasked says that a domain has no address that is known, and that a source which may know it could not be asked.
var errUnasked = errors.New("its address could not be asked for")

// leases are those of one network, by MAC address, the newest first.
type leases struct {
	once sync.Once
	of   map[string][]netip.Addr
	err  error
}

// of returns the address under which a domain is reached, the zero value if there is none. A source that fails is skipped, for
// the next one may know. It is an error if the host does not answer at all, and errUnasked if no source knows an address and
// one could not be asked for a reason that is not the guest's.
func (l *lookup) of(ctx context.Context, f *found) (netip.Addr, error) {
	var unasked error
	for _, source := range l.config.AddressSources {
		var found []netip.Addr
		var err error
		switch source {
		case sourceLease:
			if found, err = l.leased(ctx, f); err != nil {
				unasked = errUnasked
			}
		case sourceAgent:
			if err := l.host.agents.take(l.patience(), f.uuid()); err != nil {
				if errors.Is(err, errCrowded) {
					unasked = errUnasked
				}
				continue
			}
			found, err = l.interfaces(ctx, f, libvirt.DomainInterfaceAddressesSrcAgent, func() { l.host.agents.release(f.uuid()) })
		default:
			found, err = l.interfaces(ctx, f, libvirt.DomainInterfaceAddressesSrcArp, func() {})
		}
		if ctx.Err() != nil {
			return netip.Addr{}, context.Cause(ctx)
		}
		if err != nil && session.Lost(err) {
			return netip.Addr{}, err
		}
		if ip := choose(found, l.config.AddressFamily); ip.IsValid() {
			return ip, nil
		}
	}
	return netip.Addr{}, unasked
}

// choose takes the first address that others can reach and that is of the family, IPv4 before IPv6 where none is given.
func choose(all []netip.Addr, family string) netip.Addr {
	fit := func(want func(netip.Addr) bool) netip.Addr {
		for _, ip := range all {
			if ip.IsGlobalUnicast() && want(ip) {
				return ip
			}
		}
		return netip.Addr{}
	}
	if family != "ipv6" {
		if ip := fit(netip.Addr.Is4); ip.IsValid() || family == "ipv4" {
			return ip
		}
	}
	return fit(netip.Addr.Is6)
}

func (l *lookup) leased(ctx context.Context, f *found) ([]netip.Addr, error) {
	network := cmp.Or(f.record.Network, l.host.config.Network)
	if network == "" {
		return nil, nil
	}
	l.mu.Lock()
	if l.networks == nil {
		l.networks = map[string]*leases{}
	}
	n := l.networks[network]
	if n == nil {
		n = &leases{}
		l.networks[network] = n
	}
	l.mu.Unlock()
	n.once.Do(func() { n.of, n.err = l.readLeases(ctx, network) })
	return n.of[strings.ToLower(f.record.MAC)], n.err
}

func (l *lookup) readLeases(ctx context.Context, network string) (map[string][]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceLimit)
	defer cancel()
	all, err := ask(ctx, l.host, "NetworkGetDhcpLeases", func(api session.API) ([]libvirt.NetworkDhcpLease, error) {
		n, err := api.NetworkLookupByName(network)
		if err != nil {
			return nil, err
		}
		all, _, err := api.NetworkGetDhcpLeases(n, nil, 1, 0)
		return all, err
	})
	if err != nil {
		return nil, err
	}
	// A guest can have asked more than once, and leases of one that is gone stay for as long as they were given.
	slices.SortStableFunc(all, func(a, b libvirt.NetworkDhcpLease) int {
		switch {
		case a.Expirytime > b.Expirytime:
			return -1
		case a.Expirytime < b.Expirytime:
			return 1
		}
		return 0
	})
	out := map[string][]netip.Addr{}
	for _, lease := range all {
		ip, err := netip.ParseAddr(lease.Ipaddr)
		if err != nil || len(lease.Mac) == 0 {
			continue
		}
		mac := strings.ToLower(lease.Mac[0])
		out[mac] = append(out[mac], ip.Unmap())
	}
	return out, nil
}

// interfaces asks for the addresses of the domain's interfaces and keeps those of ours. done is called when the daemon has
// answered, however long after it was given up that is.
func (l *lookup) interfaces(ctx context.Context, f *found, source libvirt.DomainInterfaceAddressesSource, done func()) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, sourceLimit)
	defer cancel()
	const idle, running, given = 0, 1, 2
	var state atomic.Int32
	all, err := ask(ctx, l.host, "DomainInterfaceAddresses", func(api session.API) ([]libvirt.DomainInterface, error) {
		if !state.CompareAndSwap(idle, running) {
			return nil, context.Canceled
		}
		defer done()
		return api.DomainInterfaceAddresses(f.domain, uint32(source), 0) //nolint:gosec // an enumeration
	})
	if state.CompareAndSwap(idle, given) {
		done() // it was never sent
	}
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, i := range all {
		if len(i.Hwaddr) == 0 || !strings.EqualFold(i.Hwaddr[0], f.record.MAC) {
			continue
		}
		for _, a := range i.Addrs {
			if ip, err := netip.ParseAddr(a.Addr); err == nil {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out, nil
}
