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

// look reads the VM and, where there is none, the disk of its name. A disk that some VM uses is not a rest. Any error other
// than a 404 about the thing itself is one.
func (p *Provider) look(ctx context.Context, at place) (parts, error) {
	vm, err := p.api.instance(ctx, at)
	if !absent(err) {
		if err != nil {
			return parts{}, err
		}
		return parts{vm: vm}, nil
	}
	disk, err := p.rest(ctx, at)
	return parts{disk: disk}, err
}

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
