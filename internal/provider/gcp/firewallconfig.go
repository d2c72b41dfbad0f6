package gcp

import (
	"fmt"
	"net/netip"
	"regexp"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// projectOf finds the project in a network's URL or a part of one.
var projectOf = regexp.MustCompile(`(?:^|/)projects/([^/]+)/`)

func checkFirewall(block provider.Block, c Config) error {
	f := c.Firewall
	switch {
	case f.Manage && len(f.ExistingSourceRanges) > 0:
		return block.Errorf("firewall.existingSourceRanges", "with firewall.manage the rule is the operator's; name the networks in firewall.sourceRanges")
	case f.Manage && len(f.SourceRanges) == 0:
		return block.Errorf("firewall.sourceRanges", "a managed rule needs the networks of crawlers and of the operator")
	case !f.Manage && len(f.SourceRanges) > 0:
		return block.Errorf("firewall.sourceRanges", "they have no effect without firewall.manage; what rules of your own admit belongs in firewall.existingSourceRanges")
	}
	if m := projectOf.FindStringSubmatch(c.Network); f.Manage && m != nil && m[1] != c.Project {
		// A Shared VPC: its rules are those of the host project.
		return block.Errorf("firewall.manage", "network %q is of project %q, and rules are kept in project %q alone; set it to false and make the rule there",
			c.Network, m[1], c.Project)
	}
	if err := checkRanges(block, "firewall.sourceRanges", prefixes(f.SourceRanges)); err != nil {
		return err
	}
	return checkRanges(block, "firewall.existingSourceRanges", prefixes(f.ExistingSourceRanges))
}

func checkRanges(block provider.Block, list string, ranges []netip.Prefix) error {
	if len(ranges) == 0 {
		return nil
	}
	if len(ranges) > maxSourceRanges {
		return block.Errorf(list, "%d entries, at most %d are allowed", len(ranges), maxSourceRanges)
	}
	for i, n := range ranges {
		key := fmt.Sprintf("%s[%d]", list, i)
		switch {
		case !n.IsValid():
			return block.Errorf(key, "empty; want a network such as 192.0.2.0/24")
		case n.Addr().Is4In6():
			return block.Errorf(key, "%q: write an IPv4 network as one", n)
		case !n.Addr().Is4():
			return block.Errorf(key, "%q: VMs have IPv4 addresses only", n)
		case n != n.Masked():
			return block.Errorf(key, "%q has bits set beyond its length; did you mean %q?", n, n.Masked())
		case n.Bits() < 2:
			// 0.0.0.0/1 and 128.0.0.0/1 are everybody, too.
			return block.Errorf(key, "%q admits everybody; name the networks of your crawlers", n)
		}
	}
	if all := widest(ranges); all.Bits() < 2 {
		return block.Errorf(list, "together they have all of %q, which admits everybody; name the networks of your crawlers", all)
	}
	return nil
}

// widest puts networks of IPv4 together wherever two are the halves of a larger one, and returns the largest that comes out.
func widest(ranges []netip.Prefix) netip.Prefix {
	there := map[netip.Prefix]bool{}
	var best netip.Prefix
	var add func(netip.Prefix)
	add = func(n netip.Prefix) {
		if there[n] {
			return
		}
		there[n] = true
		if !best.IsValid() || n.Bits() < best.Bits() {
			best = n
		}
		if n.Bits() == 0 {
			return
		}
		half := n.Addr().As4()
		half[(n.Bits()-1)/8] ^= 0x80 >> ((n.Bits() - 1) % 8)
		if there[netip.PrefixFrom(netip.AddrFrom4(half), n.Bits())] {
			add(netip.PrefixFrom(n.Addr(), n.Bits()-1).Masked())
		}
	}
	for _, n := range ranges {
		add(n)
	}
	return best
}
