package discovery

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

const (
	maxHostBytes  = 253
	maxLabelBytes = 63
)

// target checks that a target is a host name in its one canonical spelling, so that a cooldown set under one name is
// found under it: lower case, no scheme, port, brackets, zone or trailing dot, internationalised names as A-labels. An
// IP address counts in the form of RFC 5952, an IPv4 one never as IPv6.
func target(member, host string) *apiError {
	if !canonicalHost(host) {
		return invalid("%s must be a host name in lower case without scheme, port and trailing dot "+
			"(internationalised names as xn--…), or an IP address", member)
	}
	return nil
}

func canonicalHost(host string) bool {
	if host == "" || len(host) > maxHostBytes {
		return false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Zone() == "" && !addr.Is4In6() && addr.String() == host
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !canonicalLabel(label) {
			return false
		}
	}
	// Resolvers take a name that ends in a number for an IPv4 address in one of its odd spellings.
	return !numeric(labels[len(labels)-1])
}

func canonicalLabel(label string) bool {
	if label == "" || len(label) > maxLabelBytes || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if c := label[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	if !strings.HasPrefix(label, "xn--") {
		return true
	}
	// One A-label at a time: whole names of well-known hosts have labels like r3---sn-x, which IDNA does not know.
	back, err := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(true)).ToASCII(label)
	return err == nil && back == label
}

func numeric(label string) bool {
	digits, hex := strings.CutPrefix(label, "0x")
	for i := range len(digits) {
		if c := digits[i]; (c < '0' || c > '9') && (!hex || c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
