package forwardproxy

import (
	"errors"
	"fmt"
	"net/netip"
)

// ErrDestinationRefused is matched by errors of a [DestinationPolicy], and
// answered with 403.
var ErrDestinationRefused = errors.New("destination refused by policy")

// DestinationPolicy decides by address where clients may be taken. The zero
// value allows globally reachable unicast addresses and nothing else: no
// loopback, link-local, metadata, private, carrier-grade NAT, multicast or other
// special-purpose address (IANA's registries, RFC 6890).
type DestinationPolicy struct {
	// Allow are exceptions. An IPv4 prefix also covers the address inside
	// IPv4-mapped, NAT64 (64:ff9b::/96) and 6to4 addresses, which are judged by it.
	Allow []netip.Prefix
}

// Validate names the first prefix that is none.
func (p DestinationPolicy) Validate() error { return validPrefixes("Allow", p.Allow) }

// Check returns nil or an error that matches [ErrDestinationRefused] and says
// why. It does not block. Judge what is dialled, not what was asked for: a name
// may resolve differently the next time.
func (p DestinationPolicy) Check(addr netip.Addr) error {
	if !addr.IsValid() {
		return fmt.Errorf("%w: not an address", ErrDestinationRefused)
	}
	judged := addr.Unmap().WithZone("")
	if containsAddr(p.Allow, judged) {
		return nil
	}
	if inner, ok := embeddedIPv4(judged); ok {
		if err := p.Check(inner); err != nil {
			return fmt.Errorf("%w (inside %v)", err, addr)
		}
		return nil
	}
	if why := special(judged); why != "" {
		return fmt.Errorf("%w: %v is %s", ErrDestinationRefused, addr, why)
	}
	return nil
}

// containsAddr compares as IPv4 what is IPv4 in either notation.
func containsAddr(prefixes []netip.Prefix, addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range prefixes {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// embeddedIPv4 finds the address a translator or relay would take out of an
// IPv6 one.
func embeddedIPv4(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// special names the purpose that keeps addr, which is not IPv4-mapped, from
// being a destination, or returns "".
func special(addr netip.Addr) string {
	for _, r := range specialRanges {
		if r.prefix.Contains(addr) {
			return r.purpose
		}
	}
	if addr.Is6() && !globalUnicast6.Contains(addr) {
		return "not a global unicast address"
	}
	return ""
}
