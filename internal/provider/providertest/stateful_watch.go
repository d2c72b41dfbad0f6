package providertest

import (
	"context"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Watching is an Updating that tells of changes. It finds them by listing every two milliseconds of real time.
type Watching struct{ Updating }

var _ provider.Watcher = Watching{}

// Watch implements provider.Watcher.
func (w Watching) Watch(ctx context.Context, tell func(provider.Change)) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	known := map[string]provider.Instance{}
	for {
		if listing, err := w.ListByTag(ctx); err == nil && len(listing.Unread) == 0 {
			known = w.compare(known, byID(listing), tell)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// compare tells of what differs between two lists and returns the second.
func (w Watching) compare(before, now map[string]provider.Instance, tell func(provider.Change)) map[string]provider.Instance {
	for id, inst := range before {
		if now[id].Identity != inst.Identity {
			tell(provider.Change{Instance: inst, Gone: true})
		}
	}
	for id, inst := range now {
		if old := before[id]; old.Identity != inst.Identity || old.State != inst.State || old.IP != inst.IP || old.Message != inst.Message {
			tell(provider.Change{Instance: inst})
		}
	}
	return now
}
