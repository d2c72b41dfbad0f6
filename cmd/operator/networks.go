package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// externalNetworks parses --external-allow-cidrs.
func (o *options) externalNetworks() ([]netip.Prefix, error) {
	if o.externalAllow == "" {
		return nil, nil
	}
	var out []netip.Prefix
	for _, text := range strings.Split(o.externalAllow, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("--external-allow-cidrs=%q: %q is not a CIDR", o.externalAllow, text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
