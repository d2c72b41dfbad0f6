package gcp

import (
	"context"
	"strconv"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// parts are what stands in a place: a VM, or, where there is none, the disk that it has left. Nil is what is not there.
type parts struct {
	vm   *compute.Instance
	disk *compute.Disk
	// beside is somebody else's VM, with a disk of another name, that stands where the VM of disk was.
	beside *compute.Instance
}

func (s parts) empty() bool { return s.vm == nil && s.disk == nil }

// marks returns those of what stands there, zero where it has none.
func (s parts) marks() provider.Marks {
	switch {
	case s.vm != nil:
		return marksOf(s.vm.Labels, s.vm.Description)
	case s.disk != nil:
		return marksOf(s.disk.Labels, s.disk.Description)
	}
	return provider.Marks{}
}

func (s parts) identity() string {
	if s.vm != nil {
		return identityOf(s.vm.Id)
	}
	return identityOf(s.disk.Id)
}

// look reads the VM and, where there is none of uid's, the disk of its name: a stranger who has taken the name of the one does
// not make the other go away. Any error other than a 404 about the thing itself is one.
func (p *Provider) look(ctx context.Context, at place, uid string) (parts, error) {
	vm, err := p.api.instance(ctx, at)
	if err != nil && !absent(err) {
		return parts{}, err
	}
	if err == nil && p.owner.Foreign(marksOf(vm.Labels, vm.Description), uid) == nil {
		return parts{vm: vm}, nil
	}
	taken := err == nil
	disk, err := p.rest(ctx, at)
	switch {
	case err != nil:
		return parts{}, err
	case !taken:
		return parts{disk: disk}, nil
	case disk != nil && p.owner.Foreign(marksOf(disk.Labels, disk.Description), uid) == nil:
		return parts{disk: disk, beside: vm}, nil
	}
	return parts{vm: vm}, nil
}

// rest reads the disk, nil where there is none. One that some VM uses is not a rest.
func (p *Provider) rest(ctx context.Context, at place) (*compute.Disk, error) {
	disk, err := p.api.disk(ctx, at)
	switch {
	case absent(err):
		return nil, nil //nolint:nilnil // that it is not there is the answer
	case err != nil:
		return nil, err
	case len(disk.Users) > 0:
		return nil, nil //nolint:nilnil // it is not a rest
	}
	return disk, nil
}

// identityOf is never used twice: the API numbers everything it makes.
func identityOf(id uint64) string { return strconv.FormatUint(id, 10) }

// createdAt reads a time as the API writes it, 2024-05-01T05:00:00.123-07:00; zero, which counts as young, where it does not
// parse.
func createdAt(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
