package gcp

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	compute "google.golang.org/api/compute/v1"
)

const (
	// quotasEvery is how long quotas are shown as they were: they change slowly, and each reading is a call.
	quotasEvery = 10 * time.Minute
	// maxDetails is what a status may have.
	maxDetails = 32
)

// shownQuotas are those that VMs use up.
var shownQuotas = []string{"CPUS", "INSTANCES", "IN_USE_ADDRESSES"}

// quotas are what was last read. The lock is not held during a call, so that no check waits for another.
type quotas struct {
	mu    sync.Mutex
	asked time.Time
	shown map[string]string
}

// headroom adds what is left of the quotas, at most quotasEvery old. To read them is a right that the operator does not need:
// where they cannot be read there are none, and they are asked for again after the same time.
func (p *Provider) headroom(ctx context.Context, details map[string]string) {
	if len(p.config.Regions) == 0 {
		return
	}
	q := &p.quotas
	now := p.window.Clock.Now()
	q.mu.Lock()
	due := q.asked.IsZero() || now.Sub(q.asked) >= quotasEvery
	if due {
		q.asked = now
	}
	q.mu.Unlock()
	if due {
		shown := p.readQuotas(ctx)
		q.mu.Lock()
		q.shown = shown
		q.mu.Unlock()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(q.shown)) {
		if len(details) < maxDetails {
			details[key] = q.shown[key]
		}
	}
}

func (p *Provider) readQuotas(ctx context.Context) map[string]string {
	regions, err := p.api.regions(ctx)
	if err != nil {
		return nil // logged
	}
	shown := map[string]string{}
	for _, region := range p.config.Regions {
		shown["quota/"+region] = "the project has no such region"
	}
	for _, r := range regions {
		if _, ours := shown["quota/"+r.Name]; ours {
			shown["quota/"+r.Name] = left(r)
		}
	}
	return shown
}

func left(r *compute.Region) string {
	var all []string
	for _, metric := range shownQuotas {
		for _, q := range r.Quotas {
			if q.Metric == metric {
				all = append(all, fmt.Sprintf("%s %g of %g", metric, max(0, q.Limit-q.Usage), q.Limit))
			}
		}
	}
	return strings.Join(all, ", ")
}
