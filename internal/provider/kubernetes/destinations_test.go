package kubernetes

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
)

// TestSquidRefusesWhatTheLocalProxyRefuses compares the list that Squid gets with the policy of the operator's own proxy, at
// the edges of every network that either knows and at random.
func TestSquidRefusesWhatTheLocalProxyRefuses(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, allow := range [][]netip.Prefix{
		nil, prefixes("10.20.0.0/16"), prefixes("0.0.0.0/0"), prefixes("fd00::/8", "192.168.0.0/16"), prefixes("10.0.0.1/32", "::1/128"), prefixes("240.0.0.0/8"),
	} {
		refused := refusedDestinations(nil, allow)
		policy := forwardproxy.DestinationPolicy{Allow: allow}
		for _, a := range samples(random, allow) {
			want := policy.Check(a) != nil
			if got := slices.ContainsFunc(refused, func(s span) bool { return s.contains(a) }); got != want {
				t.Errorf("allowing %v: %s refused: %v, want %v", allow, a, got, want)
			}
		}
	}
}

func samples(random *rand.Rand, allow []netip.Prefix) (out []netip.Addr) {
	for _, s := range refusedDestinations(nil, nil) {
		out = append(out, s.from, s.to, s.from.Prev(), s.to.Next())
	}
	for _, n := range append(special4(), allow...) {
		for _, s := range everyForm(n) {
			out = append(out, s.from, s.to, s.from.Prev(), s.to.Next())
		}
	}
	for range 20000 {
		var four [4]byte
		var six [16]byte
		for i := range six {
			six[i] = byte(random.Uint32())
		}
		copy(four[:], six[:])
		if random.IntN(2) == 0 {
			six[0] = 0x20
		}
		out = append(out, netip.AddrFrom4(four), netip.AddrFrom16(six))
		for _, outer := range []netip.Prefix{nat64, sixToFour} {
			b := outer.Addr().As16()
			copy(b[outer.Bits()/8:], four[:])
			out = append(out, netip.AddrFrom16(b))
		}
	}
	// Squid knows a mapped address as the IPv4 one.
	return slices.DeleteFunc(out, func(a netip.Addr) bool { return !a.IsValid() || a.Is4In6() })
}

func TestClusterNetworksAreRefusedUnlessAllowed(t *testing.T) {
	pods := prefixes("198.51.0.0/16", "2a00:1::/64")
	for _, tc := range []struct {
		addr    string
		allow   []netip.Prefix
		refused bool
	}{
		{"198.51.7.7", nil, true},
		{"2a00:1::7", nil, true},
		{"64:ff9b::c633:707", nil, true},
		{"198.50.7.7", nil, false},
		{"198.51.7.7", prefixes("198.51.7.0/24"), false},
		{"198.51.8.7", prefixes("198.51.7.0/24"), true},
	} {
		a := netip.MustParseAddr(tc.addr)
		got := slices.ContainsFunc(refusedDestinations(pods, tc.allow), func(s span) bool { return s.contains(a) })
		if got != tc.refused {
			t.Errorf("%s, allowing %v: refused %v, want %v", a, tc.allow, got, tc.refused)
		}
	}
}

func TestForSquid(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		networks []netip.Prefix
		want     []string
	}{
		{"networks stay networks", prefixes("10.0.0.0/8", "fd00::/8"), []string{"10.0.0.0/8", "fd00::/8"}},
		{"of two that overlap Squid would drop one", prefixes("10.1.0.0/16", "10.0.0.0/8", "11.0.0.0/8"), []string{"10.0.0.0/7"}},
		{"0.0.0.0 is :: for Squid", prefixes("0.0.0.0/1"), []string{"0.0.0.1-127.255.255.255"}},
		{"255.255.255.255 is IPv6's last", prefixes("128.0.0.0/1"), []string{"128.0.0.0-255.255.255.254"}},
		{"nothing is left", prefixes("0.0.0.0/32"), nil},
		{"mapped addresses are all of IPv4 for Squid", prefixes("::/8"), []string{"::-::fffe:ffff:ffff", "::1:0:0:0-ff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}},
	} {
		if got := forSquid(clientSpans(tc.networks)); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v: got %v, want %v", tc.reason, tc.networks, got, tc.want)
		}
	}
}
