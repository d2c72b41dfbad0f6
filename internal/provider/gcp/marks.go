package gcp

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// labelPort is where the proxy on the VM listens.
	labelPort = "proxy-operator-port"
	// labelAddress is which address crawlers connect to, external or internal: a VM keeps the one that it was made with.
	labelAddress  = "proxy-operator-address"
	labelReserved = "proxy-operator-"
	// described is what descriptions begin with; namespace and name of the Proxy follow. Labels cannot hold them: they may be
	// longer, and have dots.
	described = "crawl.example.com/proxy "
)

func reserved(key string) bool { return strings.HasPrefix(key, labelReserved) }

// labels are the marks, port and kind of address, and what the entry adds.
func (p *Provider) labels(m provider.Marks, port int32) map[string]string {
	all := maps.Clone(p.config.Labels)
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range m.ToMap() {
		if key != provider.LabelNamespace && key != provider.LabelName {
			all[key] = value
		}
	}
	all[labelPort], all[labelAddress] = strconv.Itoa(int(port)), p.config.AddressType
	return all
}

func describe(m provider.Marks) string { return described + m.Namespace + "/" + m.Name }

// marksOf reads what labels and describe have written; zero where any of it is missing or was not written by an operator.
func marksOf(labels map[string]string, description string) provider.Marks {
	m, ok := provider.MarksFromMap(labels)
	if !ok {
		return provider.Marks{}
	}
	name, ok := strings.CutPrefix(description, described)
	if ok {
		m.Namespace, m.Name, _ = strings.Cut(name, "/")
	}
	return m
}

func portOf(labels map[string]string) int32 {
	port, err := strconv.ParseInt(labels[labelPort], 10, 32)
	if err != nil || port < 1 || port > 65535 {
		return 0
	}
	return int32(port)
}

// mine is a filter for what this installation has made.
func mine(o provider.Owner) string {
	return fmt.Sprintf("labels.%s=%q AND labels.%s=%q AND labels.%s=%q",
		provider.LabelManaged, provider.LabelManagedValue, provider.LabelInstallation, o.Installation, provider.LabelCluster, o.Cluster)
}
