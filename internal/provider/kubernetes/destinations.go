package kubernetes

import (
	"cmp"
	"net/netip"
	"slices"
)

// span is a run of addresses of one family.
type span struct{ from, to netip.Addr }

func spanOf(n netip.Prefix) span {
	last := n.Addr().AsSlice()
	for i := n.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	to, _ := netip.AddrFromSlice(last)
	return span{n.Addr(), to}
}

// String writes the span as a network where it is one, and as a range otherwise.
func (s span) String() string {
	for bits := range s.from.BitLen() + 1 {
		n := netip.PrefixFrom(s.from, bits)
		if n == n.Masked() && spanOf(n) == s {
			if n.IsSingleIP() {
				return s.from.String()
			}
			return n.String()
		}
	}
	return s.from.String() + "-" + s.to.String()
}

// forSquid writes spans as Squid means them. It keeps IPv4 addresses in their mapped form, except that 0.0.0.0 and
// 255.255.255.255 are :: and the last address of IPv6 for it (Ip::Address::map4to6), so that a network with one of them would
// begin or end far away, overlap others and be dropped. They go without saying here: as those of IPv6 they are in a span of
// their own, and clients do not have them.
func forSquid(list []span) (out []string) {
	for _, s := range list {
		if first := netip.IPv4Unspecified(); s.from == first {
			s.from = first.Next()
		}
		if last := netip.AddrFrom4([4]byte{255, 255, 255, 255}); s.to == last {
			s.to = last.Prev()
		}
		if s.from.Compare(s.to) <= 0 {
			out = append(out, s.String())
		}
	}
	return out
}

func (s span) contains(a netip.Addr) bool {
	return a.BitLen() == s.from.BitLen() && s.from.Compare(a) <= 0 && a.Compare(s.to) <= 0
}

// special4 and special6 are the networks that are not the internet's (RFC 6890 and IANA's registries), special services in
// public space included. They are the same as those of package forwardproxy; a test compares the two.
func special4() []netip.Prefix {
	return prefixes(
		"168.63.129.16/32", // Azure's metadata service
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	)
}

func special6() []netip.Prefix {
	return prefixes(
		"2001::/23", "2001:db8::/32", "3fff::/20", // within the internet's own
		"::/3", "4000::/2", "8000::/1", // all that is not
	)
}

// Networks of IPv6 that hold IPv4 addresses, and at which bit those begin.
var (
	mapped    = netip.MustParsePrefix("::ffff:0:0/96") // for Squid these are IPv4 addresses
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
)

func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// clientSpans returns the networks of clients without overlaps, of which Squid would drop one. The mapped addresses of IPv6
// are taken out: for Squid they are all of IPv4.
func clientSpans(networks []netip.Prefix) []span {
	return subtract(spansOf(networks), []span{spanOf(mapped)})
}

// spansOf returns networks sorted and without overlaps.
func spansOf(networks []netip.Prefix) []span {
	list := make([]span, 0, len(networks))
	for _, n := range networks {
		list = append(list, spanOf(n))
	}
	return merge(list)
}

// refusedDestinations returns what a proxy does not connect to: special networks and those of the cluster, less what is
// allowed. An address within another (NAT64, 6to4) is judged by the inner one. The result is one list without overlaps, so
// that one rule decides: of a name with several addresses, every single one has to be outside of it.
func refusedDestinations(cluster, allowed []netip.Prefix) []span {
	var refused, open []span
	for _, n := range slices.Concat(special4(), cluster) {
		refused = append(refused, everyForm(n)...)
	}
	base := subtract(spansOf(special6()), []span{spanOf(mapped), spanOf(nat64)})
	for _, n := range allowed {
		open = append(open, everyForm(n)...)
	}
	return subtract(merge(append(refused, base...)), open)
}

// everyForm returns a network, and for one of IPv4 also its forms within IPv6.
func everyForm(n netip.Prefix) []span {
	out := []span{spanOf(n)}
	if !n.Addr().Is4() {
		return out
	}
	four := n.Addr().As4()
	for _, outer := range []netip.Prefix{nat64, sixToFour} {
		at := outer.Addr().As16()
		copy(at[outer.Bits()/8:], four[:])
		out = append(out, spanOf(netip.PrefixFrom(netip.AddrFrom16(at), outer.Bits()+n.Bits())))
	}
	return out
}

// merge sorts spans and joins those that touch.
func merge(list []span) (out []span) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from.BitLen(), b.from.BitLen()), a.from.Compare(b.from))
	})
	for _, s := range list {
		if n := len(out); n > 0 && (out[n-1].contains(s.from) || out[n-1].to.Next() == s.from) {
			if out[n-1].to.Less(s.to) {
				out[n-1].to = s.to
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// subtract takes every address of less out of list.
func subtract(list, less []span) []span {
	for _, hole := range less {
		var out []span
		for _, s := range list {
			if s.from.BitLen() != hole.from.BitLen() || hole.to.Less(s.from) || s.to.Less(hole.from) {
				out = append(out, s)
				continue
			}
			if s.from.Less(hole.from) {
				out = append(out, span{s.from, hole.from.Prev()})
			}
			if hole.to.Less(s.to) {
				out = append(out, span{hole.to.Next(), s.to})
			}
		}
		list = out
	}
	return list
}
