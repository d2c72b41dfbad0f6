package health

import (
	"fmt"
	"net/netip"
)

// RefuseInternal returns a DialPolicy that refuses loopback, link-local, unspecified and cloud metadata addresses
// except those within allow. IPv4 addresses inside IPv6 (mapped, NAT64) are judged as what they lead to.
func RefuseInternal(allow []netip.Prefix) func(netip.Addr) error {
	// Metadata services that are not link-local: Alibaba Cloud, Oracle Cloud (old), AWS over IPv6, GCP over IPv6.
	metadata := []netip.Addr{
		netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("192.0.0.192"),
		netip.MustParseAddr("fd00:ec2::254"),
		netip.MustParseAddr("fd20:ce::254"),
	}
	nat64 := netip.MustParsePrefix("64:ff9b::/96")
	return func(a netip.Addr) error {
		a = a.Unmap().WithZone("")
		for _, prefix := range allow {
			if prefix.Contains(a) {
				return nil
			}
		}
		if nat64.Contains(a) {
			b := a.As16()
			a = netip.AddrFrom4([4]byte(b[12:]))
		}
		kind := ""
		switch {
		case a.IsLoopback():
			kind = "a loopback"
		case a.IsLinkLocalUnicast(), a.IsLinkLocalMulticast():
			kind = "a link-local"
		case a.IsUnspecified():
			// Linux takes a connection to 0.0.0.0 for one to itself.
			kind = "the unspecified"
		}
		for _, m := range metadata {
			if a == m {
				kind = "a metadata service"
			}
		}
		if kind == "" {
			return nil
		}
		// Without the address: a name with several would otherwise give another message each time.
		return fmt.Errorf("the endpoint resolves to %s address, which --external-allow-cidrs does not allow", kind)
	}
}
