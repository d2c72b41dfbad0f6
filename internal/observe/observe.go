// Package observe watches instances in the steady state: one list per provider and interval, however large the fleet. It
// wakes only the Proxies whose instance is not what their status says.
package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// Providers lists the configured provider entries.
type Providers interface {
	All() []registry.Handle
}

// Options are what an Observer needs; all but Metrics are required.
type Options struct {
	Providers Providers
	Store     *fleet.Store
	Clock     clock.WithTicker
	// Interval between two lists of one provider.
	Interval time.Duration
	// CallTimeout bounds one list.
	CallTimeout time.Duration
	// Wake asks for a pass over a Proxy. It must not block.
	Wake func(types.NamespacedName)
	// Metrics may be nil.
	Metrics Recorder
}

// Recorder takes in what metrics show of lists. Its methods must not block.
type Recorder interface {
	// Listed is told of a list that succeeded: how many instances it showed and when it began.
	Listed(providerName string, instances int, began time.Time)
	// ListFailed is told of one that did not.
	ListFailed(providerName string)
	// ProviderGone is told that there is no such entry any more. Nothing about it follows.
	ProviderGone(providerName string)
}

type unrecorded struct{}

func (unrecorded) Listed(string, int, time.Time) {}
func (unrecorded) ListFailed(string)             {}
func (unrecorded) ProviderGone(string)           {}

// Observer lists providers and remembers what it saw.
type Observer struct {
	o     Options
	nudge chan struct{}

	mu      sync.RWMutex
	current map[string]provider.Provider // by name: whose lists count
	seen    map[string]answer            // by provider name
	told    map[string]map[string]told   // by provider name and ID
}

// answer is one list of one provider.
type answer struct {
	at    time.Time
	byUID map[string][]provider.Instance
}

// New returns an observer.
func New(o Options) *Observer {
	if o.Metrics == nil {
		o.Metrics = unrecorded{}
	}
	return &Observer{
		o: o, nudge: make(chan struct{}, 1),
		current: map[string]provider.Provider{}, seen: map[string]answer{}, told: map[string]map[string]told{},
	}
}

// Nudge tells that the configured entries have changed: watches of those that have gone end, and those that are new or rebuilt
// are watched and listed at once. It does not block, and may be called before Start.
func (o *Observer) Nudge() {
	select {
	case o.nudge <- struct{}{}:
	default: // one is due anyway
	}
}

// NeedLeaderElection lets only the leader ask the backends.
func (o *Observer) NeedLeaderElection() bool { return true }

// Start lists every provider at once and then at every interval, each on its own, so that a slow one delays no other, and
// watches those that can be watched. It blocks until ctx ends and every list and watch has returned.
func (o *Observer) Start(ctx context.Context) error {
	var lists sync.WaitGroup
	defer lists.Wait()
	w := &watches{running: map[string]*watching{}}
	defer w.all.Wait()
	busy := map[string]chan struct{}{} // for the one list of a provider at a time
	tick := o.o.Clock.NewTicker(o.o.Interval)
	defer tick.Stop()
	for all := true; ; {
		handles := o.o.Providers.All()
		fresh := o.follow(ctx, w, handles)
		for _, h := range handles {
			_, isFresh := fresh[h.Name]
			if !all && !isFresh {
				continue
			}
			free := busy[h.Name]
			if free == nil || isFresh { // the list of an old client, which may hang, is none of the new one's
				free = make(chan struct{}, 1)
				busy[h.Name] = free
			}
			select {
			case free <- struct{}{}:
			default:
				continue // the last list has not come back yet
			}
			lists.Go(func() {
				defer func() { <-free }()
				o.look(ctx, h)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			all = true
		case <-o.nudge:
			all = false
		}
	}
}

// look lists one provider and wakes whom it concerns.
func (o *Observer) look(ctx context.Context, h registry.Handle) {
	ctx, cancel := context.WithTimeout(ctx, o.o.CallTimeout)
	defer cancel()
	at := o.o.Clock.Now() // before the call: what the list shows is at least that new
	listing, err := h.Provider.ListByTag(ctx)
	if err != nil {
		o.failed(ctx, h)
		ctrl.LoggerFrom(ctx).V(1).Info("listing instances failed", "provider", h.Name, "class", provider.ClassName(err), "error", err.Error())
		return
	}
	byUID := make(map[string][]provider.Instance, len(listing.Instances))
	for _, inst := range listing.Instances {
		byUID[inst.Marks.UID] = append(byUID[inst.Marks.UID], inst)
	}
	o.mu.Lock()
	counts := o.current[h.Name] == h.Provider
	if counts {
		o.seen[h.Name] = answer{at: at, byUID: byUID}
		o.o.Metrics.Listed(h.Name, len(listing.Instances), at)
		o.outdate(h.Name, at)
	}
	o.mu.Unlock()
	if !counts {
		return // the entry was rebuilt or taken out meanwhile
	}
	for _, p := range o.o.Store.OfProvider(h.Name) {
		if p.Attempt == 0 {
			continue
		}
		if concerns(p, byUID[p.UID], listing.Unread) {
			o.o.Wake(p.Key)
		}
	}
}

// failed counts a list that failed, unless the operator is stopping or the entry was rebuilt or taken out meanwhile.
func (o *Observer) failed(ctx context.Context, h registry.Handle) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	if o.current[h.Name] == h.Provider {
		o.o.Metrics.ListFailed(h.Name)
	}
}

// concerns reports whether what was listed of p's instances asks for a pass over p.
func concerns(p *fleet.Proxy, found []provider.Instance, unread []string) bool {
	recorded := slices.IndexFunc(found, func(i provider.Instance) bool { return i.ID == p.ProviderID })
	switch {
	case recorded >= 0:
		return len(found) > 1 || differs(p, found[recorded])
	case within(p.ProviderID, unread):
		return false
	}
	// What is not provisioned is not expected to be there; the reconciler asks for it at its own pace, which may be slow
	// on purpose.
	return p.Provisioned
}

// within reports whether id lies in one of the scopes, which are runs of the elements of its path.
func within(id string, scopes []string) bool {
	return slices.ContainsFunc(scopes, func(scope string) bool {
		return strings.Contains("/"+id+"/", "/"+strings.Trim(scope, "/")+"/")
	})
}

// differs reports whether the instance is not what the snapshot was made from. One that is on its way up or down is
// polled by the reconciler; one that turns out to run although it was given up is news.
func differs(p *fleet.Proxy, inst provider.Instance) bool {
	if !p.Provisioned {
		return inst.State == provider.StateRunning && !p.Draining && !p.Deleting
	}
	return inst.State != provider.StateRunning || inst.Marks.Attempt != p.Attempt ||
		inst.IP != p.Endpoint.Host || inst.Port != p.Endpoint.Port || inst.ExitAddress != p.ExitAddress
}

// Seen returns what the last list of the provider showed of uid's instance under id, or what the provider told of it
// since. ok is false when that is older than two intervals, when it was not there, or when nothing is known. It does not
// block.
func (o *Observer) Seen(providerName, uid, id string) (inst provider.Instance, ok bool) {
	for _, inst := range o.last(providerName, uid) {
		if inst.ID == id {
			return inst, true
		}
	}
	return provider.Instance{}, false
}

// Strays returns uid's instances that the last list showed under other IDs than id, less those that have been told to be
// gone since. It does not block.
func (o *Observer) Strays(providerName, uid, id string) []provider.Instance {
	var out []provider.Instance
	for _, inst := range o.last(providerName, uid) {
		if inst.ID != id {
			out = append(out, inst)
		}
	}
	return out
}

// last returns uid's instances as they were last listed, with what was told of them since.
func (o *Observer) last(providerName, uid string) (out []provider.Instance) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	a, ok := o.seen[providerName]
	if !ok || o.o.Clock.Since(a.at) > 2*o.o.Interval {
		return nil
	}
	later := o.told[providerName]
	for _, inst := range a.byUID[uid] {
		switch t, ok := later[inst.ID]; {
		case !ok:
			out = append(out, inst)
		case !t.Gone && t.Instance.Marks.UID == uid:
			out = append(out, t.Instance)
		}
	}
	return out
}

// String names the observer in logs.
func (o *Observer) String() string { return fmt.Sprintf("observer every %s", o.o.Interval) }
