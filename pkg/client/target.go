package client

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

const maxHostBytes = 253

// CanonicalTarget brings a host name into the one spelling under which the server keeps cooldowns: lower case, without a
// trailing dot, internationalised names as A-labels (xn--…), IP addresses in their shortest form without brackets. It errors
// when host is empty, longer than 253 bytes, carries a scheme, port, path or zone, or has a label that is none in DNS (an
// underscore, for example: the server takes no such target, so leave it out or lease for the domain above). It does not block.
func CanonicalTarget(host string) (string, error) {
	if bare, ok := strings.CutPrefix(host, "["); ok && strings.HasSuffix(bare, "]") {
		host = bare[:len(bare)-1]
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", targetError(host, "has a zone")
		}
		return addr.Unmap().String(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !ascii(name) {
		var err error
		if name, err = idna.Lookup.ToASCII(name); err != nil {
			return "", targetError(host, "is not an internationalised domain name")
		}
	}
	if name == "" || len(name) > maxHostBytes {
		return "", targetError(host, "must have 1 to 253 bytes")
	}
	for label := range strings.SplitSeq(name, ".") {
		if !hostLabel(label) {
			return "", targetError(host, "must be a host name, without scheme and port, of letters, digits and hyphens")
		}
	}
	return name, nil
}

func targetError(host, why string) error {
	const most = 80
	if len(host) > most {
		host = host[:most] + "..."
	}
	return fmt.Errorf("client: target %q %s", host, why)
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c >= 0x80 })
}

func hostLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(label, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}
