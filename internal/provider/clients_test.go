package provider_test

import (
	"net/netip"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func TestCheckClients(t *testing.T) {
	for text, ok := range map[string]bool{
		"10.0.0.0/8": true, "192.0.2.7/32": true, "2001:db8::/32": true, "fd00::/16": true, "::1/128": true,
		"0.0.0.0/0": false, "0.0.0.0/1": false, "128.0.0.0/1": false, "8.0.0.0/7": false, "::/0": false, "2000::/3": false, "fc00::/7": false,
		"192.0.2.1/24": false, "::ffff:0.0.0.0/96": false, "::ffff:192.0.2.0/120": false,
	} {
		if err := provider.CheckClients(netip.MustParsePrefix(text)); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	if provider.CheckClients(netip.Prefix{}) == nil {
		t.Error("nothing is a network")
	}
}
