package gcp

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// Type is the provider type's name in the configuration.
	Type = "gcp"

	defaultNetwork    = "global/networks/default"
	defaultNetworkTag = "egress-proxy"
	defaultDiskSizeGB = 10
	maxDiskSizeGB     = 64 << 10
	maxItems          = 64
	// maxSourceRanges is what one rule takes, see https://cloud.google.com/firewall/quotas.
	maxSourceRanges = 256

	external = "external"
	internal = "internal"
	standard = "standard"
	spot     = "spot"
	premium  = "PREMIUM"
)

// Config is the entry's `gcp` block.
type Config struct {
	// Project is the project's ID. Required.
	Project string `json:"project"`
	// Regions restrict where Proxies may be, and are those whose quotas a check reports. Empty means all, and no quotas.
	Regions []string `json:"regions"`
	// Network is the VPC network, as a URL or a part of one such as global/networks/default.
	Network string `json:"network"`
	// Subnetworks name the subnetwork of each region, where the network does not choose by itself.
	Subnetworks map[string]string `json:"subnetworks"`
	// NetworkTag is put on every VM, for firewall rules. "egress-proxy" when empty.
	NetworkTag string `json:"networkTag"`
	// AddressType is external (each VM has a public address of its own, which crawlers connect to and targets see) or
	// internal (crawlers connect to its address in the network; the way out is the network's, such as Cloud NAT).
	AddressType string `json:"addressType"`
	// NetworkTier of external addresses: PREMIUM or STANDARD.
	NetworkTier string `json:"networkTier"`
	// DiskSizeGB and DiskType of the boot disk. The type is the zone's default when empty.
	DiskSizeGB int64  `json:"diskSizeGb"`
	DiskType   string `json:"diskType"`
	// Provisioning is standard or spot. A spot VM that is preempted is replaced.
	Provisioning string `json:"provisioning"`
	// ServiceAccount that VMs run as. None when its email is empty.
	ServiceAccount ServiceAccount `json:"serviceAccount"`
	// Labels are put on VMs and disks besides the marks, to tell costs apart for example.
	Labels map[string]string `json:"labels"`
	// Firewall says whether the operator keeps a rule that lets crawlers in.
	Firewall Firewall `json:"firewall"`
	// CredentialsFile is the absolute path of a service account key or of a workload identity configuration; it is read
	// anew whenever a token is needed. When empty, application default credentials are used.
	CredentialsFile string `json:"credentialsFile"`
	// Endpoint is another base URL of the Compute Engine API, such as that of Private Service Connect or of an emulator.
	Endpoint string `json:"endpoint"`
	// Anonymous sends no credentials. Only with Endpoint.
	Anonymous bool `json:"anonymous"`
}

// ServiceAccount is the identity of a VM.
type ServiceAccount struct {
	Email string `json:"email"`
	// Scopes are cloud-platform when empty.
	Scopes []string `json:"scopes"`
}

// Firewall is how a managed rule is made.
type Firewall struct {
	Manage bool `json:"manage"`
	// SourceRanges are the networks of crawlers and of the operator itself, which probes.
	SourceRanges []netip.Prefix `json:"sourceRanges"`
}

var (
	projectID  = regexp.MustCompile(`^[a-z][a-z0-9.:-]{4,61}[a-z0-9]$`)
	regionName = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	zoneName   = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z0-9]+$`)
	// resourceName is what RFC 1035 and Compute Engine call a name.
	resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	resourceURL  = regexp.MustCompile(`^[A-Za-z0-9._~:/-]{1,512}$`)
	labelKey     = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	labelValue   = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
)

func decode(block provider.Block) (Config, error) {
	c := Config{
		Network: defaultNetwork, NetworkTag: defaultNetworkTag, AddressType: external, NetworkTier: premium,
		DiskSizeGB: defaultDiskSizeGB, Provisioning: standard,
	}
	if err := block.Decode(&c); err != nil {
		return c, err
	}
	for _, check := range []func(provider.Block, Config) error{checkScope, checkNetwork, checkMachine, checkLabels, checkFirewall, checkAccess} {
		if err := check(block, c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func checkScope(block provider.Block, c Config) error {
	if !projectID.MatchString(c.Project) {
		return block.Errorf("project", "%q: want a project's ID, such as crawlers-123456", c.Project)
	}
	if len(c.Regions) > maxItems {
		return block.Errorf("regions", "%d entries, at most %d are allowed; leave it empty for all", len(c.Regions), maxItems)
	}
	for i, r := range c.Regions {
		key := fmt.Sprintf("regions[%d]", i)
		if zoneName.MatchString(r) {
			return block.Errorf(key, "%q is a zone; its region is %q", r, regionOf(r))
		}
		if !regionName.MatchString(r) {
			return block.Errorf(key, "%q is not a region, such as europe-west3", r)
		}
		if slices.Contains(c.Regions[:i], r) {
			return block.Errorf(key, "%q is repeated", r)
		}
	}
	return nil
}

func checkNetwork(block provider.Block, c Config) error {
	if !resourceURL.MatchString(c.Network) {
		return block.Errorf("network", "%q: want a network's URL or a part of one, such as %s", c.Network, defaultNetwork)
	}
	if len(c.Subnetworks) > maxItems {
		return block.Errorf("subnetworks", "%d entries, at most %d are allowed", len(c.Subnetworks), maxItems)
	}
	for region, s := range c.Subnetworks {
		if !regionName.MatchString(region) {
			return block.Errorf("subnetworks", "%q is not a region, such as europe-west3", region)
		}
		if !resourceURL.MatchString(s) {
			return block.Errorf("subnetworks."+region, "%q: want a subnetwork's URL or a part of one, such as regions/%s/subnetworks/crawlers", s, region)
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

func checkMachine(block provider.Block, c Config) error {
	if c.DiskSizeGB < defaultDiskSizeGB || c.DiskSizeGB > maxDiskSizeGB {
		return block.Errorf("diskSizeGb", "%d: want %d to %d", c.DiskSizeGB, defaultDiskSizeGB, maxDiskSizeGB)
	}
	if c.DiskType != "" && !resourceName.MatchString(c.DiskType) {
		return block.Errorf("diskType", "%q: want the name of a disk type, such as pd-balanced", c.DiskType)
	}
	if c.Provisioning != standard && c.Provisioning != spot {
		return block.Errorf("provisioning", "%q: want %s or %s", c.Provisioning, standard, spot)
	}
	if len(c.ServiceAccount.Scopes) > maxItems {
		return block.Errorf("serviceAccount.scopes", "%d entries, at most %d are allowed", len(c.ServiceAccount.Scopes), maxItems)
	}
	if c.ServiceAccount.Email == "" && len(c.ServiceAccount.Scopes) > 0 {
		return block.Errorf("serviceAccount.scopes", "there is no serviceAccount.email that they could be of")
	}
	return nil
}

// maxLabels is 64 less the marks, see https://cloud.google.com/compute/docs/labeling-resources.
const maxLabels = 48

func checkLabels(block provider.Block, c Config) error {
	if len(c.Labels) > maxLabels {
		return block.Errorf("labels", "%d entries, at most %d are allowed", len(c.Labels), maxLabels)
	}
	for key, value := range c.Labels {
		switch {
		case !labelKey.MatchString(key):
			return block.Errorf("labels", "%q: want a key of 1 to 63 characters of a-z, 0-9, '_' and '-', beginning with a letter", key)
		case reserved(key):
			return block.Errorf("labels", "%q is one of the operator's own", key)
		case !labelValue.MatchString(value):
			return block.Errorf("labels."+key, "%q: want at most 63 characters of a-z, 0-9, '_' and '-'", value)
		}
	}
	return nil
}

func checkFirewall(block provider.Block, c Config) error {
	ranges := c.Firewall.SourceRanges
	if !c.Firewall.Manage {
		if len(ranges) > 0 {
			return block.Errorf("firewall.sourceRanges", "they have no effect without firewall.manage")
		}
		return nil
	}
	if len(ranges) == 0 {
		return block.Errorf("firewall.sourceRanges", "a managed rule needs the networks of crawlers and of the operator")
	}
	if len(ranges) > maxSourceRanges {
		return block.Errorf("firewall.sourceRanges", "%d entries, at most %d are allowed", len(ranges), maxSourceRanges)
	}
	for i, n := range ranges {
		key := fmt.Sprintf("firewall.sourceRanges[%d]", i)
		switch {
		case !n.IsValid():
			return block.Errorf(key, "empty; want a network such as 192.0.2.0/24")
		case n != n.Masked():
			return block.Errorf(key, "%q has bits set beyond its length; did you mean %q?", n, n.Masked())
		case n.Bits() < 2:
			// 0.0.0.0/1 and 128.0.0.0/1 are everybody, too.
			return block.Errorf(key, "%q admits everybody; name the networks of your crawlers", n)
		}
	}
	return nil
}

func checkAccess(block provider.Block, c Config) error {
	if c.CredentialsFile != "" && !filepath.IsAbs(c.CredentialsFile) {
		return block.Errorf("credentialsFile", "%q: want an absolute path", c.CredentialsFile)
	}
	if c.Anonymous && (c.Endpoint == "" || c.CredentialsFile != "") {
		return block.Errorf("anonymous", "only for an endpoint of its own, and without credentialsFile")
	}
	return checkEndpoint(block, c.Endpoint)
}
