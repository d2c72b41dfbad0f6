package forwardproxy

import "net/netip"

// Tables, never changed: prefixes cannot be constants.
var (
	nat64          = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour      = netip.MustParsePrefix("2002::/16")
	globalUnicast6 = netip.MustParsePrefix("2000::/3")

	// The first match names the purpose, so single addresses come first. IPv6
	// outside of 2000::/3 is refused anyway; what is listed of it is listed to
	// say why.
	specialRanges = []specialRange{
		of("169.254.169.254/32", "a metadata service"),
		of("168.63.129.16/32", "a metadata service"), // Azure's, in public space
		of("100.100.100.200/32", "a metadata service"),
		of("192.0.0.192/32", "a metadata service"),
		of("fd00:ec2::254/128", "a metadata service"),
		of("fd20:ce::254/128", "a metadata service"),

		of("0.0.0.0/8", "unspecified"),
		of("10.0.0.0/8", "private"),
		of("100.64.0.0/10", "carrier-grade NAT"),
		of("127.0.0.0/8", "loopback"),
		of("169.254.0.0/16", "link-local"),
		of("172.16.0.0/12", "private"),
		of("192.0.0.0/24", "for protocol assignments"),
		of("192.0.2.0/24", "for documentation"),
		of("192.88.99.0/24", "a 6to4 relay"),
		of("192.168.0.0/16", "private"),
		of("198.18.0.0/15", "for benchmarks"),
		of("198.51.100.0/24", "for documentation"),
		of("203.0.113.0/24", "for documentation"),
		of("224.0.0.0/4", "multicast"),
		of("240.0.0.0/4", "reserved"),

		of("::/128", "unspecified"),
		of("::1/128", "loopback"),
		of("64:ff9b:1::/48", "a local translation prefix"),
		of("100::/64", "discard-only"),
		of("2001::/32", "Teredo"),
		of("2001::/23", "for protocol assignments"),
		of("2001:db8::/32", "for documentation"),
		of("3fff::/20", "for documentation"),
		of("5f00::/16", "for segment routing"),
		of("fc00::/7", "private"),
		of("fe80::/10", "link-local"),
		of("fec0::/10", "site-local"),
		of("ff00::/8", "multicast"),
	}
)

type specialRange struct {
	prefix  netip.Prefix
	purpose string
}

func of(prefix, purpose string) specialRange {
	return specialRange{netip.MustParsePrefix(prefix), purpose}
}
