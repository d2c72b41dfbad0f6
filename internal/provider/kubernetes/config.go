package kubernetes

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// Type is the provider type's name in the configuration.
	Type = "kubernetes"
	// DefaultImage is what Pods run where neither the entry nor the Proxy says otherwise.
	DefaultImage = "ubuntu/squid:6.6-24.04_beta"

	// maxNetworks bounds each list of networks: Squid's configuration goes through one environment variable, of which Linux
	// takes at most 128 KiB.
	maxNetworks = 256
	maxItems    = 64
)

// Config is the entry's `kubernetes` block.
type Config struct {
	// Kubeconfig is the absolute path of a file that leads to the cluster where the Pods are to run. When empty it is the
	// operator's own cluster, and Pods in their Proxy's namespace are owned by the Proxy.
	Kubeconfig string `json:"kubeconfig"`
	// Namespace is where all Pods of the entry live. When empty, each lives in the namespace of its Proxy.
	Namespace string `json:"namespace"`
	// Namespaces are those in which Pods may live when Namespace is empty; the operator then needs no rights beyond them.
	// Empty means all namespaces.
	Namespaces []string `json:"namespaces"`
	// Image runs where a Proxy names none; ubuntu/squid:6.6-24.04_beta (DefaultImage) when left out.
	Image string `json:"image"`
	// Images are those that a Proxy may name as placement.image.
	Images map[string]string `json:"images"`
	// Resources are those of a Pod whose Proxy names no machine type. By default a Pod asks for 50m CPU and 64Mi memory and
	// may use 256Mi.
	Resources *Resources `json:"resources"`
	// MachineTypes are the resources that a Proxy may name as placement.machineType.
	MachineTypes map[string]Resources `json:"machineTypes"`
	// NodeSelector, Tolerations and TopologySpreadConstraints say where Pods may run, besides the region and zone that a
	// Proxy names.
	NodeSelector              map[string]string   `json:"nodeSelector"`
	Tolerations               []corev1.Toleration `json:"tolerations"`
	TopologySpreadConstraints []Spread            `json:"topologySpreadConstraints"`
	// Annotations are put on Pods, for network plugins that give a Pod an exit of its own.
	Annotations map[string]string `json:"annotations"`
	// AllowClients are the networks whose clients may connect. Needed for Proxies without credentials, since every Pod of a
	// cluster can reach every other; has to hold the operator's own Pod, which probes.
	AllowClients []netip.Prefix `json:"allowClients"`
	// AllowDestinations opens networks that proxies refuse otherwise: loopback, private, link-local and the like, and
	// ClusterCIDRs.
	AllowDestinations []netip.Prefix `json:"allowDestinations"`
	// ClusterCIDRs are the networks of Pods, Services and nodes as far as they are not private ones: refused, too.
	ClusterCIDRs []netip.Prefix `json:"clusterCIDRs"`
}

// Resources are what a Pod asks for and what it may use.
type Resources struct {
	// Requests are what the scheduler looks for on a node.
	Requests corev1.ResourceList `json:"requests"`
	// Limits are what the Pod cannot pass.
	Limits corev1.ResourceList `json:"limits"`
}

// Spread is a topology spread constraint over the Pods of this installation.
type Spread struct {
	// TopologyKey is the label of nodes over whose values Pods are spread.
	TopologyKey string `json:"topologyKey"`
	// MaxSkew is 1 when zero.
	MaxSkew int32 `json:"maxSkew"`
	// WhenUnsatisfiable is ScheduleAnyway when empty.
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`
}

func defaultResources() Resources {
	return Resources{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
}

func decode(block provider.Block) (Config, error) {
	c := Config{Image: DefaultImage}
	if err := block.Decode(&c); err != nil {
		return c, err
	}
	if c.Resources == nil {
		r := defaultResources()
		c.Resources = &r
	}
	for i := range c.TopologySpreadConstraints {
		s := &c.TopologySpreadConstraints[i]
		if s.MaxSkew == 0 {
			s.MaxSkew = 1
		}
		if s.WhenUnsatisfiable == "" {
			s.WhenUnsatisfiable = corev1.ScheduleAnyway
		}
	}
	for _, check := range []func(provider.Block, Config) error{checkScope, checkImages, checkResources, checkScheduling, checkLists} {
		if err := check(block, c); err != nil {
			return c, err
		}
	}
	return c, nil
}

func checkScope(block provider.Block, c Config) error {
	if c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig) {
		return block.Errorf("kubeconfig", "%q: want an absolute path", c.Kubeconfig)
	}
	if c.Namespace != "" && len(c.Namespaces) > 0 {
		return block.Errorf("namespaces", "namespace %q is where all Pods live; remove one of the two", c.Namespace)
	}
	if c.Namespace != "" && len(validation.IsDNS1123Label(c.Namespace)) > 0 {
		return block.Errorf("namespace", "%q is not a namespace", c.Namespace)
	}
	if len(c.Namespaces) > maxItems {
		return block.Errorf("namespaces", "%d entries, at most %d are allowed; leave it empty for all namespaces", len(c.Namespaces), maxItems)
	}
	for i, ns := range c.Namespaces {
		key := fmt.Sprintf("namespaces[%d]", i)
		if len(validation.IsDNS1123Label(ns)) > 0 {
			return block.Errorf(key, "%q is not a namespace", ns)
		}
		if slices.Contains(c.Namespaces[:i], ns) {
			return block.Errorf(key, "%q is repeated", ns)
		}
	}
	return nil
}

func checkLists(block provider.Block, c Config) error {
	for key, list := range map[string][]netip.Prefix{
		"allowClients": c.AllowClients, "allowDestinations": c.AllowDestinations, "clusterCIDRs": c.ClusterCIDRs,
	} {
		if len(list) > maxNetworks {
			return block.Errorf(key, "%d entries, at most %d are allowed", len(list), maxNetworks)
		}
		for i, n := range list {
			if err := canonical(n); err != nil {
				return block.Errorf(fmt.Sprintf("%s[%d]", key, i), "%v", err)
			}
		}
	}
	// Everything is no restriction, in one network or in two halves.
	for _, everybody := range []string{"0.0.0.0/0", "::/0"} {
		if slices.Contains(spansOf(c.AllowClients), spanOf(netip.MustParsePrefix(everybody))) {
			return block.Errorf("allowClients", "together they are %s, which admits everybody", everybody)
		}
	}
	return nil
}

// canonical refuses what would be taken for a network that it is not.
func canonical(n netip.Prefix) error {
	switch {
	case !n.IsValid():
		return fmt.Errorf("empty; want a network such as 10.0.0.0/8")
	case n.Addr().Is4In6():
		return fmt.Errorf("%q: write an IPv4 network as one", n)
	case n != n.Masked():
		return fmt.Errorf("%q has bits set beyond its length; did you mean %q?", n, n.Masked())
	}
	return nil
}
