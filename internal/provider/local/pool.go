package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
)

const (
	// maxPoolAddresses bounds the addresses looked through for a free one, maxUnusable those among them that are free but
	// of no use to the host.
	maxPoolAddresses = 65536
	maxUnusable      = 1024
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
		for a := r.network.Addr(); a.IsValid() && r.network.Contains(a); a = a.Next() {
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
	return a == r.network.Addr() || (a.Is4() && !r.network.Contains(a.Next()))
}

// exits returns the exit addresses as a network.
func (r slotRange) exits() netip.Prefix {
	if r.network.IsValid() {
		return r.network
	}
	return netip.PrefixFrom(r.single.exit, r.single.exit.BitLen())
}

// loopback reports whether nobody outside of this host can reach the listen addresses.
func (r slotRange) loopback() bool {
	if r.network.IsValid() {
		return r.network.Addr().IsLoopback() // every other address of a loopback network is one too
	}
	return r.single.listen.IsLoopback()
}

// free returns the first slot that none of taken occupies, neither its exit nor its (listen address, port), and that
// usable has no objection to: a stranger on one address must not stop the whole pool.
func free(pool []slotRange, taken []record, port int32, usable func(slot) error) (slot, error) {
	exits := make(map[netip.Addr]struct{}, len(taken))
	listeners := make(map[netip.AddrPort]struct{}, len(taken))
	for _, r := range taken {
		exits[r.Exit] = struct{}{}
		listeners[netip.AddrPortFrom(r.Listen, uint16(r.Port))] = struct{}{} //nolint:gosec // ports are checked when read
	}
	looked, refused := 0, 0
	var why error
	for _, r := range pool {
		for s := range r.slots() {
			if looked++; looked > maxPoolAddresses || refused >= maxUnusable {
				return slot{}, noSlot(port, len(taken), refused, why)
			}
			_, exitTaken := exits[s.exit]
			_, listenerTaken := listeners[netip.AddrPortFrom(s.listen, uint16(port))] //nolint:gosec // Plan has checked it
			if exitTaken || listenerTaken {
				continue
			}
			err := usable(s)
			if err == nil {
				return s, nil
			}
			if refused++; why == nil {
				why = err
			}
		}
	}
	return slot{}, noSlot(port, len(taken), refused, why)
}

func noSlot(port int32, taken, refused int, why error) error {
	if why == nil {
		return fmt.Errorf("%w for port %d; %d instances hold theirs", errPoolFull, port, taken)
	}
	return fmt.Errorf("%w for port %d; of %d free ones the first: %w", errUnusable, port, refused, why)
}

// usableFor returns a check whether a process could now listen on a slot with the port and leave by its exit. What it
// opens is closed at once; nothing is accepted.
func usableFor(ctx context.Context, port int32) func(slot) error {
	return func(s slot) error {
		var c net.ListenConfig
		l, err := c.Listen(ctx, "tcp", netip.AddrPortFrom(s.listen, uint16(port)).String()) //nolint:gosec // Plan has checked it
		if err != nil {
			return err
		}
		if err := l.Close(); err != nil || s.exit == s.listen {
			return err
		}
		// Any socket shows whether the address is this host's; of the kinds there are, this one talks to nobody.
		u, err := c.ListenPacket(ctx, "udp", netip.AddrPortFrom(s.exit, 0).String())
		return errors.Join(err, closeIf(u))
	}
}

func closeIf(c net.PacketConn) error {
	if c == nil {
		return nil
	}
	return c.Close()
}
