package gcp

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// The forms in which the API takes networks and subnetworks; a bare name it calls malformed, once for each VM.
// https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert
var (
	networkForm    = regexp.MustCompile(`^(https://[^/]+/compute/[a-z0-9]+/)?(projects/[^/]+/)?global/networks/([^/]+)$`)
	subnetworkForm = regexp.MustCompile(`^(https://[^/]+/compute/[a-z0-9]+/)?(projects/[^/]+/)?regions/([^/]+)/subnetworks/([^/]+)$`)
)

// Network is an IP network as it is written in a configuration.
type Network struct{ netip.Prefix }

// UnmarshalText takes CIDR notation.
func (n *Network) UnmarshalText(text []byte) error {
	p, err := netip.ParsePrefix(string(text))
	if err == nil {
		n.Prefix = p
		return nil
	}
	if a, err := netip.ParseAddr(string(text)); err == nil && a.Zone() == "" {
		return fmt.Errorf("%q is an address; want a network such as 192.0.2.0/24, for one address %q", text, netip.PrefixFrom(a, a.BitLen()))
	}
	return fmt.Errorf("%.64q: want a network such as 192.0.2.0/24", text)
}

func prefixes(networks []Network) []netip.Prefix {
	out := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		out[i] = n.Prefix
	}
	return out
}

func checkNetwork(block provider.Block, c Config) error {
	if err := checkNetworkURL(block, c.Network); err != nil {
		return err
	}
	if len(c.Subnetworks) > maxItems {
		return block.Errorf("subnetworks", "%d entries, at most %d are allowed", len(c.Subnetworks), maxItems)
	}
	for _, region := range slices.Sorted(maps.Keys(c.Subnetworks)) {
		if err := checkSubnetwork(block, c, region, c.Subnetworks[region]); err != nil {
			return err
		}
	}
	if !resourceName.MatchString(c.NetworkTag) {
		return block.Errorf("networkTag", "%q: want 1 to 63 characters of a-z, 0-9 and '-', beginning with a letter", c.NetworkTag)
	}
	if c.AddressType != external && c.AddressType != internal {
		return block.Errorf("addressType", "%q: want %s or %s", c.AddressType, external, internal)
	}
	if c.NetworkTier != premium && c.NetworkTier != "STANDARD" {
		return block.Errorf("networkTier", "%q: want %s or STANDARD", c.NetworkTier, premium)
	}
	return nil
}

func checkNetworkURL(block provider.Block, network string) error {
	m := networkForm.FindStringSubmatch(network)
	switch {
	case resourceName.MatchString(network):
		return block.Errorf("network", "%q is a name; write it as %q", network, "global/networks/"+network)
	case m == nil || !resourceURL.MatchString(network) || !resourceName.MatchString(m[3]):
		return block.Errorf("network", "%q: want a network's URL or a part of one, such as %s", network, defaultNetwork)
	}
	return nil
}

func checkSubnetwork(block provider.Block, c Config, region, s string) error {
	if !regionName.MatchString(region) {
		return block.Errorf("subnetworks", "%q is not a region, such as europe-west3", region)
	}
	key := "subnetworks." + region
	if len(c.Regions) > 0 && !slices.Contains(c.Regions, region) {
		return block.Errorf(key, "the entry's regions leave %s out", region)
	}
	m := subnetworkForm.FindStringSubmatch(s)
	switch {
	case resourceName.MatchString(s):
		return block.Errorf(key, "%q is a name; write it as %q", s, "regions/"+region+"/subnetworks/"+s)
	case m == nil || !resourceURL.MatchString(s) || !resourceName.MatchString(m[4]):
		return block.Errorf(key, "%q: want a subnetwork's URL or a part of one, such as regions/%s/subnetworks/crawlers", s, region)
	case m[3] != region:
		return block.Errorf(key, "%q is in region %s", s, m[3])
	}
	return nil
}
