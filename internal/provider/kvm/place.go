package kvm

import (
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

var instanceName = regexp.MustCompile(`^proxy-[a-z2-7]{16}$`)

// place is where a domain is: hosts/<host>/domains/<name>.
type place struct{ host, name string }

func (l place) String() string { return "hosts/" + l.host + "/domains/" + l.name }

// placeOf reads an ID. One outside of the scope is ErrPermanent with reason ScopeMismatch.
func (p *Provider) placeOf(op, id string) (place, *host, error) {
	mismatch := func(format string, args ...any) (place, *host, error) {
		return place{}, nil, provider.Wrap(provider.ErrPermanent, op, p.name, id, fmt.Errorf(format, args...)).
			WithReason(provider.ReasonScopeMismatch)
	}
	part := strings.Split(id, "/")
	if len(part) != 4 || part[0] != "hosts" || part[2] != "domains" || !hostName.MatchString(part[1]) || !instanceName.MatchString(part[3]) {
		return mismatch("the ID is not that of a domain of this operator")
	}
	h := p.hosts[part[1]]
	if h == nil {
		return mismatch("host %q is not one of this provider entry", part[1])
	}
	return place{part[1], part[3]}, h, nil
}

// planned chooses the host: the one that placement.zone names, or else one of the region's, by the owner's UID. The same UID
// leads to the same host as long as the entry's hosts are the same, and few are moved when they change.
func (p *Provider) planned(req provider.CreateRequest) (place, error) {
	place := place{name: req.Name}
	zone, region := req.Placement.Zone, req.Placement.Region
	if zone != "" {
		h := p.hosts[zone]
		if h == nil {
			return place, fmt.Errorf("placement.zone %q: not one of the hosts %s", zone, strings.Join(sorted(p.hosts), ", "))
		}
		if region != "" && h.config.Region != region {
			return place, fmt.Errorf("placement.zone %q: the host is not in placement.region %q", zone, region)
		}
		place.host = zone
		return place, nil
	}
	var best uint64
	for _, name := range sorted(p.hosts) {
		if region != "" && p.hosts[name].config.Region != region {
			continue
		}
		sum := fnv.New64a()
		_, _ = fmt.Fprintf(sum, "%s/%s", req.UID, name)
		// FNV's high bits hardly depend on the last bytes, and those are what hosts differ in.
		if score := mix(sum.Sum64()); place.host == "" || score > best {
			place.host, best = name, score
		}
	}
	if place.host == "" {
		return place, fmt.Errorf("placement.region %q: no host is in it", region)
	}
	return place, nil
}

// mix spreads the bits of a hash (the finaliser of MurmurHash3).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
