package gcp

import (
	"path/filepath"
	"regexp"

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
	// Network is the VPC network, as a URL or a part of one such as global/networks/default; a name alone is refused, as the
	// API does.
	Network string `json:"network"`
	// Subnetworks name the subnetwork of each region, where the network does not choose by itself, likewise.
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
	// Firewall says who can reach VMs: the operator keeps a rule, or one of the administrator's restricts them.
	Firewall Firewall `json:"firewall"`
	// CredentialsFile is the absolute path of a service account key or of a workload identity configuration; it is read
	// anew when it has changed. When empty, application default credentials are used.
	CredentialsFile string `json:"credentialsFile"`
	// Endpoint is another base URL of the Compute Engine API, such as that of Private Service Connect or of an emulator. Without
	// a path it means /compute/v1/ there.
	Endpoint string `json:"endpoint"`
	// Anonymous sends no credentials. Only with Endpoint.
	Anonymous bool `json:"anonymous"`
}

// ServiceAccount is the identity of a VM.
type ServiceAccount struct {
	// Email of the account, or "default" for the project's own.
	Email string `json:"email"`
	// Scopes are URLs; cloud-platform when empty.
	Scopes []string `json:"scopes"`
}

// Firewall is how a managed rule is made, or what the administrator's own does.
type Firewall struct {
	// Manage has the operator keep a rule that lets SourceRanges in to VMs with the network tag.
	Manage bool `json:"manage"`
	// SourceRanges are the IPv4 networks of crawlers and of the operator itself, which probes. With Manage.
	SourceRanges []Network `json:"sourceRanges"`
	// ExistingSourceRanges are the IPv4 networks to which rules that are not the operator's restrict clients. That is taken
	// on trust, and makes Proxies without credentials possible. Without Manage.
	ExistingSourceRanges []Network `json:"existingSourceRanges"`
}

var (
	projectID  = regexp.MustCompile(`^[a-z][a-z0-9.:-]{4,61}[a-z0-9]$`)
	regionName = regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+$`)
	zoneName   = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z0-9]+$`)
	// resourceName is what RFC 1035 and Compute Engine call a name.
	resourceName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	resourceURL  = regexp.MustCompile(`^[A-Za-z0-9._~:/-]{1,512}$`)
	// accountEmail is a service account, or "default" for the project's own.
	accountEmail = regexp.MustCompile(`^([a-z0-9-]+@[a-z0-9.-]+|default)$`)
	scopeURL     = regexp.MustCompile(`^https://[a-z0-9./_-]{1,200}$`)
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
	c.Endpoint = baseURL(c.Endpoint)
	return c, nil
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
