package local

import (
	"fmt"
	"iter"
	"net/netip"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// slot is what one instance takes of the pool.
type slot struct{ listen, exit netip.Addr }

// slotRange is one entry of the pool: a single slot, or every address of a network.
type slotRange struct {
	single  slot
	network netip.Prefix
}

func (r slotRange) slots() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		if !r.network.IsValid() {
			yield(r.single)
			return
		}
		for a := r.network.Masked().Addr(); a.IsValid() && r.network.Contains(a); a = a.Next() {
			if r.reserved(a) {
				continue
			}
			if !yield(slot{listen: a, exit: a}) {
				return
			}
		}
	}
}

// reserved reports the addresses of an IPv4 network that no host can have: its first and last, and of an IPv6 one the
// first, which is the routers' anycast address.
func (r slotRange) reserved(a netip.Addr) bool {
	if r.network.Bits() >= a.BitLen()-1 {
		return false
	}
	return a == r.network.Masked().Addr() || (a.Is4() && !r.network.Contains(a.Next()))
}

func parsePool(block provider.Block, entries []PoolEntry) ([]slotRange, error) {
	if len(entries) == 0 {
		return nil, block.Errorf("pool", "at least one entry with a listen address is needed")
	}
	if len(entries) > maxPoolEntries {
		return nil, block.Errorf("pool", "%d entries, at most %d are allowed", len(entries), maxPoolEntries)
	}
	exits := map[netip.Addr]int{}
	var out []slotRange
	for i, e := range entries {
		r, err := parseEntry(e)
		if err != nil {
			return nil, block.Errorf(fmt.Sprintf("pool[%d]", i), "%v", err)
		}
		if !r.network.IsValid() {
			if other, dup := exits[r.single.exit]; dup {
				return nil, block.Errorf(fmt.Sprintf("pool[%d]", i), "exit %s is that of pool[%d] already", r.single.exit, other)
			}
			exits[r.single.exit] = i
		}
		out = append(out, r)
	}
	return out, nil
}

func parseEntry(e PoolEntry) (slotRange, error) {
	if network, err := netip.ParsePrefix(e.Listen); err == nil {
		if e.Exit != "" {
			return slotRange{}, fmt.Errorf("exit %q: a network's addresses are their own exits", e.Exit)
		}
		return slotRange{network: network.Masked()}, nil
	}
	listen, err := hostAddress("listen", e.Listen)
	if err != nil {
		return slotRange{}, err
	}
	s := slot{listen: listen, exit: listen}
	if e.Exit != "" {
		if s.exit, err = hostAddress("exit", e.Exit); err != nil {
			return slotRange{}, err
		}
	}
	return slotRange{single: s}, nil
}

func hostAddress(key, text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil || a.Zone() != "":
		return a, fmt.Errorf("%s %q: want an IP address", key, text)
	case a.IsUnspecified() || a.IsMulticast():
		return a, fmt.Errorf("%s %q: want the address of one host", key, text)
	}
	return a.Unmap(), nil
}

// free returns the first slot that none of taken occupies: neither its exit nor its (listen address, port).
func free(pool []slotRange, taken []record, port int32) (slot, bool) {
	exits := make(map[netip.Addr]struct{}, len(taken))
	listeners := make(map[netip.AddrPort]struct{}, len(taken))
	for _, r := range taken {
		exits[r.Exit] = struct{}{}
		listeners[netip.AddrPortFrom(r.Listen, uint16(r.Port))] = struct{}{} //nolint:gosec // ports are checked when read
	}
	looked := 0
	for _, r := range pool {
		for s := range r.slots() {
			if looked++; looked > maxPoolAddresses {
				return slot{}, false
			}
			_, exitTaken := exits[s.exit]
			_, listenerTaken := listeners[netip.AddrPortFrom(s.listen, uint16(port))] //nolint:gosec // Plan has checked it
			if !exitTaken && !listenerTaken {
				return s, true
			}
		}
	}
	return slot{}, false
}
