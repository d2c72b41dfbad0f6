package gcp

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// ListByTag lists disks and VMs with this installation's marks in all zones of the project. Zones that cannot be reached are
// named as unread.
func (p *Provider) ListByTag(ctx context.Context) (provider.Listing, error) {
	ctx = p.calling(ctx, "list", "")
	listing, err := p.list(ctx)
	if err == nil {
		sawList(ctx, listing)
	}
	outcome(ctx, err)
	return listing, err
}

func (p *Provider) list(ctx context.Context) (provider.Listing, error) {
	const op = "list"
	ctx, cancel := p.bound(ctx)
	defer cancel()
	found := map[string]provider.Instance{}
	used := usage{began: p.window.Clock.Now(), ports: map[int32]bool{}, shown: map[string]bool{}}
	filter := mine(p.owner)
	// Disks first: what is made meanwhile shows with its VM then, and not as a rest.
	unread, err := p.api.disks(ctx, filter, func(d *compute.Disk) {
		if len(d.Users) == 0 {
			if inst := p.ofDisk(d); p.listed(inst) {
				found[inst.ID] = p.young(inst)
			}
		}
	})
	if err != nil {
		return provider.Listing{}, p.fail(op, "", err)
	}
	began := time.Now()
	more, err := p.api.instances(ctx, filter, func(vm *compute.Instance) {
		if inst := p.ofVM(vm); p.listed(inst) {
			found[inst.ID] = inst
			used.add(inst, portOf(vm.Labels), vm.Tags != nil && slices.Contains(vm.Tags.Items, p.config.NetworkTag))
		}
	})
	if err != nil {
		return provider.Listing{}, p.fail(op, "", err)
	}
	p.heard.note(p.window.Clock.Now(), time.Since(began))
	listing := provider.Listing{Unread: scopesOf(slices.Concat(unread, more))}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		listing.Instances = append(listing.Instances, found[id])
	}
	used.complete = len(listing.Unread) == 0
	p.settle(ctx, used)
	return listing, nil
}

// young keeps a disk that may have been made for a VM that is not there yet from counting as a rest.
func (p *Provider) young(inst provider.Instance) provider.Instance {
	if made := (provider.Ref{RequestedAt: inst.CreatedAt}); inst.State == provider.StateTerminated && !p.window.Passed(made) {
		inst.State, inst.Message = provider.StateProvisioning, nothingYet
	}
	return inst
}

// listed reports whether an instance is this installation's, under a name that an ID may have.
func (p *Provider) listed(inst provider.Instance) bool {
	_, err := p.placeOf("list", inst.ID)
	return err == nil && p.owner.Owns(inst.Marks)
}

// scopesOf turns what the API says it could not reach ("zones/x", "projects/p/zones/x", whole URLs, "regions/x") into
// elements of IDs. What is no zone, a region for example, makes all of its zones, or everything, unread.
func scopesOf(unreached []string) []string {
	var out []string
	for _, u := range unreached {
		scope := everything
		if i := strings.LastIndex(u, "zones/"); i >= 0 && zoneName.MatchString(u[i+len("zones/"):]) {
			scope = u[i:]
		}
		out = append(out, scope)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
