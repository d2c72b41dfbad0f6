package kvm

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// listWidth is how many domains of a host are read at a time.
const listWidth = 8

// ListByTag lists the domains and volumes with this installation's marks on every host, side by side. A host that cannot be
// read is named as unread as long as another one can.
func (p *Provider) ListByTag(ctx context.Context) (provider.Listing, error) {
	ctx = p.calling(ctx, "list", "")
	listing, err := p.list(ctx)
	if err == nil && detailed(ctx) {
		logger(ctx).V(2).Info("instances", "count", len(listing.Instances), "unread", listing.Unread)
	}
	outcome(ctx, err)
	return listing, err
}

func (p *Provider) list(ctx context.Context) (provider.Listing, error) {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	hosts := sorted(p.hosts)
	found, errs := make([][]provider.Instance, len(hosts)), make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, name := range hosts {
		wg.Go(func() { found[i], errs[i] = p.listOn(placed(ctx, place{host: name}), p.hosts[name]) })
	}
	wg.Wait()
	var out provider.Listing
	for i, name := range hosts {
		if errs[i] != nil {
			out.Unread = append(out.Unread, "hosts/"+name)
		}
		out.Instances = append(out.Instances, found[i]...)
	}
	if len(out.Unread) == len(hosts) {
		return provider.Listing{}, p.fail("list", "", errs[0])
	}
	return out, nil
}

// listOn reads volumes before domains: what is made meanwhile shows with its domain then, and not as the rest of an instance.
func (p *Provider) listOn(ctx context.Context, h *host) ([]provider.Instance, error) {
	pl, err := h.poolOn(ctx, h)
	if err != nil {
		return nil, err
	}
	names, err := volumeNames(ctx, h, pl)
	if err != nil {
		return nil, err
	}
	domains, err := h.domains(ctx)
	if err != nil {
		return nil, err
	}
	addresses := newLookup(ctx, h, &p.config, agentPatience)
	read, there := make([]*provider.Instance, len(domains)), make([]bool, len(domains))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(listWidth)
	for i, d := range domains {
		group.Go(func() error {
			ctx := placed(gctx, place{h.config.Name, d.Name})
			inst, err := p.listed(ctx, h, d, addresses)
			if session.Absent(err) {
				return nil // it has gone meanwhile
			}
			read[i], there[i] = inst, err == nil
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []provider.Instance
	whole := map[string]bool{} // attempts whose domain is there, whatever its marks say by now, by identity
	for i, inst := range read {
		if inst != nil {
			out = append(out, *inst)
		}
		if there[i] {
			whole[uuid.UUID(domains[i].UUID).String()] = true
		}
	}
	owner := volumesOf(p.owner, h.config.Name, "", "", 0).owner
	for _, name := range names {
		v, ok := parseVolume(name)
		if !ok || v.owner != owner {
			continue
		}
		inst := p.rest(place{h.config.Name, v.name}, v)
		if !whole[inst.Identity] {
			out = append(out, inst)
			whole[inst.Identity] = true
		}
	}
	slices.SortStableFunc(out, func(a, b provider.Instance) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// listed describes a domain, nil if it is not one of ours. Of those that are not it reads no more than the marks.
func (p *Provider) listed(ctx context.Context, h *host, d libvirt.Domain, addresses *lookup) (*provider.Instance, error) {
	f, err := h.marked(ctx, d)
	if err != nil || !p.owner.Owns(f.marks) || p.strange(h, f, f.marks.UID) != nil {
		return nil, err
	}
	if f.power, err = h.power(ctx, d); err != nil {
		return nil, err
	}
	return p.instance(ctx, h, f, addresses)
}
