package local

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// maxPoolEntries bounds the list.
const maxPoolEntries = 4096

var (
	multicast4 = netip.MustParsePrefix("224.0.0.0/4")
	multicast6 = netip.MustParsePrefix("ff00::/8")
	linkLocal6 = netip.MustParsePrefix("fe80::/10")
	// Some in a network of these are no host's address.
	unusable = []netip.Prefix{
		netip.PrefixFrom(netip.IPv4Unspecified(), 32), netip.PrefixFrom(netip.IPv6Unspecified(), 128), multicast4, multicast6, linkLocal6,
	}
)

func parsePool(block provider.Block, entries []PoolEntry) ([]slotRange, error) {
	if len(entries) == 0 {
		return nil, block.Errorf("pool", "at least one entry with a listen address is needed")
	}
	if len(entries) > maxPoolEntries {
		return nil, block.Errorf("pool", "%d entries, at most %d are allowed", len(entries), maxPoolEntries)
	}
	var out []slotRange
	for i, e := range entries {
		r, key, err := parseEntry(e)
		if err != nil {
			return nil, block.Errorf(fmt.Sprintf("pool[%d].%s", i, key), "%v", err)
		}
		for j, earlier := range out {
			if earlier.exits().Overlaps(r.exits()) {
				return nil, block.Errorf(fmt.Sprintf("pool[%d]", i), "exit %s is among those of pool[%d] already", text(r.exits()), j)
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// parseEntry returns the key that an error is about.
func parseEntry(e PoolEntry) (r slotRange, key string, err error) {
	if network, err := netip.ParsePrefix(e.Listen); err == nil {
		if e.Exit != "" {
			return r, "exit", fmt.Errorf("%q: a network's addresses are their own exits", e.Exit)
		}
		return slotRange{network: network}, "listen", checkNetwork(network)
	}
	listen, err := hostAddress(e.Listen)
	if err != nil {
		return r, "listen", err
	}
	s := slot{listen: listen, exit: listen}
	if e.Exit != "" {
		if s.exit, err = hostAddress(e.Exit); err != nil {
			return r, "exit", err
		}
	}
	return slotRange{single: s}, "", nil
}

func checkNetwork(n netip.Prefix) error {
	if err := canonical(n); err != nil {
		return err
	}
	for _, other := range unusable {
		if n.Overlaps(other) {
			return fmt.Errorf("%q: not all of it are addresses of hosts, %s is in it", n, text(other))
		}
	}
	return nil
}

// canonical refuses what egress-proxy refuses in its lists, and what would be taken for a network it is not.
func canonical(n netip.Prefix) error {
	switch {
	case !n.IsValid():
		return errors.New("empty; want a network such as 10.0.0.0/8")
	case n.Addr().Is4In6():
		return fmt.Errorf("%q: write an IPv4 network as one", n)
	case n != n.Masked():
		return fmt.Errorf("%q has bits set beyond its length; did you mean %q?", n, n.Masked())
	}
	return nil
}

func hostAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return a, fmt.Errorf("%q: want an IP address", s)
	}
	a = a.Unmap()
	if a.IsUnspecified() || a.IsMulticast() || linkLocal6.Contains(a) {
		return a, fmt.Errorf("%q: want the address of one host, and no link-local one of IPv6", s)
	}
	return a, nil
}

// text writes a network of one address as the address.
func text(n netip.Prefix) string {
	if n.IsSingleIP() {
		return n.Addr().String()
	}
	return n.String()
}
