package gcp

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// trusted is how long a rule is taken for what it was when it was last read; a hand may have changed it since.
const trusted = 10 * time.Minute

// rule is the entry's firewall rule as this process knows it. What is true stands at the API: a process that has just
// started knows nothing, and finds out.
type rule struct {
	name string

	mu sync.Mutex
	// ports that the rule had when it was read last; nil is that it was not there.
	ports []int32
	// read is when that was; zero asks for it to be read again.
	read time.Time
	// soon are ports of creations that a list may not show yet, with the time of the last one.
	soon map[int32]time.Time
}

// foreignRuleError says that somebody else has the rule's name.
type foreignRuleError struct{ name string }

func (e *foreignRuleError) Error() string {
	return fmt.Sprintf("firewall rule %s is not this operator's; remove it, or give the provider entry another name", e.name)
}

// ruleName belongs to one entry of one installation, and fits into 63 characters.
func ruleName(o provider.Owner, entry string) string {
	sum := sha256.Sum256([]byte(o.Installation + "/" + o.Cluster + "/" + entry))
	return fmt.Sprintf("egress-proxies-%x", sum[:8])
}

// ruleMarks are in the rule's description: rules have no labels.
func (p *Provider) ruleMarks() string {
	return fmt.Sprintf("crawl.example.com/firewall installation %s cluster %s provider %s", p.owner.Installation, p.owner.Cluster, p.name)
}

// admit lets crawlers in to a port before something listens there.
func (p *Provider) admit(ctx context.Context, port int32) error {
	if !p.config.Firewall.Manage {
		return nil
	}
	r := &p.rule
	r.mu.Lock()
	defer r.mu.Unlock()
	r.soon[port] = p.window.Clock.Now()
	if err := p.know(ctx); err != nil {
		return err
	}
	if slices.Contains(r.ports, port) {
		return nil
	}
	return p.set(ctx, append(slices.Clone(r.ports), port))
}

// settle sets the rule to the ports in use, and removes it when there are none. Of an incomplete list nothing is concluded
// about ports that it does not show. What fails is logged, and tried again with the next list.
func (p *Provider) settle(ctx context.Context, used map[int32]bool, complete bool) {
	if !p.config.Firewall.Manage {
		return
	}
	r := &p.rule
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.know(ctx) != nil {
		return // logged
	}
	want := maps.Clone(used)
	delete(want, 0)
	for port, at := range r.soon {
		if p.window.Passed(provider.Ref{RequestedAt: at}) {
			delete(r.soon, port)
		} else {
			want[port] = true
		}
	}
	if !complete {
		for _, port := range r.ports {
			want[port] = true
		}
	}
	ports := slices.Sorted(maps.Keys(want))
	if slices.Equal(ports, r.ports) {
		return
	}
	_ = p.set(ctx, ports) // logged
}

// know reads the rule where it has not been read lately.
func (p *Provider) know(ctx context.Context) error {
	r := &p.rule
	now := p.window.Clock.Now()
	if !r.read.IsZero() && now.Sub(r.read) < trusted {
		return nil
	}
	found, err := p.api.firewall(ctx, r.name)
	switch {
	case absent(err):
		r.ports, r.read = nil, now
		return nil
	case err != nil:
		return err
	case found.Description != p.ruleMarks():
		return done(ctx, verbGet, "firewalls", r.name, &foreignRuleError{r.name})
	}
	r.ports, r.read = nil, now
	if p.same(found) {
		r.ports = portsIn(found)
	} else {
		// The entry has changed, or a hand has changed the rule: none of its ports counts as open in the way that is wanted.
		r.ports = []int32{}
	}
	return nil
}

// set makes, changes or removes the rule. It is read again with the next list, since the API carries changes out later.
func (p *Provider) set(ctx context.Context, ports []int32) error {
	r := &p.rule
	slices.Sort(ports)
	var err error
	switch {
	case len(ports) == 0:
		if err = p.api.deleteFirewall(ctx, r.name); absent(err) {
			err = nil
		}
	case r.ports == nil:
		err = p.api.insertFirewall(ctx, p.wanted(ports))
	default:
		err = p.api.patchFirewall(ctx, p.wanted(ports))
	}
	r.read = time.Time{}
	return err
}

// wanted is the rule for these ports.
func (p *Provider) wanted(ports []int32) *compute.Firewall {
	f := &compute.Firewall{
		Name: p.rule.name, Description: p.ruleMarks(), Network: p.config.Network, Direction: "INGRESS", Priority: 1000,
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

// same reports whether a rule is as wanted, its ports aside.
func (p *Provider) same(f *compute.Firewall) bool {
	sources := slices.Sorted(slices.Values(f.SourceRanges))
	return slices.Equal(sources, p.wanted(nil).SourceRanges) && slices.Equal(f.TargetTags, []string{p.config.NetworkTag}) &&
		lastOf(f.Network) == lastOf(p.config.Network) && !f.Disabled && f.Direction == "INGRESS" && len(f.Denied) == 0 &&
		len(f.Allowed) == 1 && f.Allowed[0].IPProtocol == "tcp"
}

// portsIn returns the ports of a rule, sorted. A range is not of this operator's making, and counts as none.
func portsIn(f *compute.Firewall) []int32 {
	ports := []int32{}
	for _, a := range f.Allowed {
		for _, s := range a.Ports {
			if n, err := strconv.ParseUint(s, 10, 16); err == nil {
				ports = append(ports, int32(n)) //nolint:gosec // 16 bits
			}
		}
	}
	slices.Sort(ports)
	return ports
}
