package gcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	ingress  = "INGRESS"
	priority = 1000
)

func newRule(o provider.Owner, entry string, c Config) rule {
	return rule{name: ruleName(o, entry, c), held: make(chan struct{}, 1), soon: map[string]opening{}}
}

// hold waits for its turn, or for the end of ctx.
func (r *rule) hold(ctx context.Context) error {
	select {
	case r.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *rule) release() { <-r.held }

// foreignRuleError says that somebody else has the rule's name.
type foreignRuleError struct{ name string }

func (e *foreignRuleError) Error() string {
	return fmt.Sprintf("firewall rule %s is not this operator's; remove it, or give the provider entry another name", e.name)
}

// ruleName belongs to one entry of one installation, and fits into 63 characters. With another network or tag the entry has
// another rule: the one there was stays for the VMs that it is of, which would be cut off all at once otherwise.
func ruleName(o provider.Owner, entry string, c Config) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{o.Installation, o.Cluster, entry, lastOf(c.Network), c.NetworkTag}, "/")))
	return fmt.Sprintf("egress-proxies-%x", sum[:8])
}

// ruleMarks are in the rule's description: rules have no labels.
func (p *Provider) ruleMarks() string {
	return fmt.Sprintf("crawl.example.com/firewall installation %s cluster %s provider %s", p.owner.Installation, p.owner.Cluster, p.name)
}

// wanted is the rule for these ports.
func (p *Provider) wanted(ports []int32) *compute.Firewall {
	f := &compute.Firewall{
		Name: p.rule.name, Description: p.ruleMarks(), Network: p.config.Network, Direction: ingress, Priority: priority,
		TargetTags: []string{p.config.NetworkTag}, Allowed: []*compute.FirewallAllowed{{IPProtocol: "tcp"}},
	}
	for _, n := range p.config.Firewall.SourceRanges {
		f.SourceRanges = append(f.SourceRanges, n.String())
	}
	slices.Sort(f.SourceRanges)
	for _, port := range ports {
		f.Allowed[0].Ports = append(f.Allowed[0].Ports, strconv.Itoa(int(port)))
	}
	return f
}

// unfit reports whether a rule differs in what the API does not let anybody change.
func (p *Provider) unfit(f *compute.Firewall) bool {
	return lastOf(f.Network) != lastOf(p.config.Network) || f.Direction != ingress || len(f.Denied) > 0
}

// portsOf returns the single ports of a rule, sorted, and whether the rule is otherwise as wanted and has nothing else.
func (p *Provider) portsOf(f *compute.Firewall) (ports []int32, same bool) {
	same = slices.Equal(slices.Sorted(slices.Values(f.SourceRanges)), p.wanted(nil).SourceRanges) &&
		slices.Equal(f.TargetTags, []string{p.config.NetworkTag}) && !p.unfit(f) && !f.Disabled && f.Priority == priority &&
		len(f.SourceTags)+len(f.SourceServiceAccounts)+len(f.TargetServiceAccounts)+len(f.DestinationRanges) == 0 &&
		len(f.Allowed) == 1 && f.Allowed[0].IPProtocol == "tcp" && len(f.Allowed[0].Ports) > 0
	ports = []int32{}
	for _, a := range f.Allowed {
		if a.IPProtocol != "tcp" {
			continue
		}
		for _, s := range a.Ports {
			n, err := strconv.ParseUint(s, 10, 16)
			if err != nil {
				same = false // a range
				continue
			}
			ports = append(ports, int32(n))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), same
}
