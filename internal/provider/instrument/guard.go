package instrument

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// WithGuard returns p with its calls limited per target (provider.Targeter; a provider without it is one target), so that
// a part of a backend that does not answer holds up neither the others nor the callers' workers:
//
//   - at most 4 calls are in flight to a target that answers, and 1 to a target that has not answered yet or whose last
//     call ended without an answer;
//   - after a call without an answer, nobody is let through for 10 s, doubling up to 5 min; then one call tries.
//
// A call that is not let through fails at once: with ErrTransient and provider.ReasonBusy, where a place will be free
// soon, or provider.ReasonUnreachable with the delay until the next try. Any answer counts, also an error; a call has none
// when its own deadline passed (after a second at least), or when it failed with provider.ReasonUnreachable.
//
// ListByTag speaks to all targets and is a target of its own. Plan is limited where it says which target it asks
// (provider.PlanTargeter).
// The result implements provider.CredentialUpdater exactly when p does.
func WithGuard(p provider.Provider, name string, c clock.PassiveClock) provider.Provider {
	g := &guarded{Provider: p, name: name, clock: c, targets: map[string]*target{}}
	g.targeter, _ = As[provider.Targeter](p)
	g.planner, _ = As[provider.PlanTargeter](p)
	if u, ok := As[provider.CredentialUpdater](p); ok {
		return &guardedUpdater{guarded: g, updater: u}
	}
	return g
}

// listTarget is the target of lists; no name of a target is like it.
const listTarget = "\x00list"

type guarded struct {
	provider.Provider
	name     string
	clock    clock.PassiveClock
	targeter provider.Targeter     // nil: everything is one target
	planner  provider.PlanTargeter // nil: Plan asks nobody

	mu      sync.Mutex
	targets map[string]*target
}

func (g *guarded) Unwrap() provider.Provider { return g.Provider }

func (g *guarded) targetOf(ref provider.Ref) string {
	if g.targeter == nil {
		return ""
	}
	return g.targeter.Target(ref)
}

func (g *guarded) Plan(ctx context.Context, req provider.CreateRequest) (id string, err error) {
	target := ""
	if g.planner != nil {
		target = g.planner.PlanTarget(req)
	}
	if target == "" {
		return g.Provider.Plan(ctx, req)
	}
	err = g.through(ctx, "plan", "", target, func() error { id, err = g.Provider.Plan(ctx, req); return err })
	return id, err
}

func (g *guarded) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	return g.call(ctx, "create", ref, func() error { return g.Provider.Create(ctx, req, ref) })
}

func (g *guarded) Get(ctx context.Context, ref provider.Ref) (inst *provider.Instance, err error) {
	err = g.call(ctx, "get", ref, func() error { inst, err = g.Provider.Get(ctx, ref); return err })
	return inst, err
}

func (g *guarded) Delete(ctx context.Context, ref provider.Ref) error {
	return g.call(ctx, "delete", ref, func() error { return g.Provider.Delete(ctx, ref) })
}

func (g *guarded) ListByTag(ctx context.Context) (listing provider.Listing, err error) {
	err = g.through(ctx, "list", "", listTarget, func() error { listing, err = g.Provider.ListByTag(ctx); return err })
	return listing, err
}

func (g *guarded) call(ctx context.Context, op string, ref provider.Ref, do func() error) error {
	return g.through(ctx, op, ref.ID, g.targetOf(ref), do)
}

// through makes one call to a target, in the place that the pass has there or in one of its own.
func (g *guarded) through(ctx context.Context, op, id, name string, do func() error) error {
	leave, err := g.enter(ctx, op, id, name)
	if err != nil {
		return err
	}
	defer leave()
	started := g.clock.Now()
	err = do()
	now := g.clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch t := g.targets[name]; {
	case provider.Reason(err) == provider.ReasonUnreachable:
		t.silent(started, now)
	case err != nil && timedOut(ctx, err):
		if now.Sub(started) >= leastPatience {
			t.silent(started, now)
		}
	case errors.Is(err, context.Canceled):
		// The caller gave up; that says nothing of the target.
	default:
		t.answered()
	}
	return err
}

func timedOut(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// enter takes a place at a target. A pass keeps it until it ends; leave gives back one that no pass keeps.
func (g *guarded) enter(ctx context.Context, op, id, name string) (leave func(), err error) {
	ps, _ := ctx.Value(passKey{}).(*pass)
	if ps != nil && name != listTarget && ps.holds(g, name) {
		return func() {}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.targets[name]
	if t == nil {
		t = &target{}
		g.targets[name] = t
	}
	if wait, reason := t.enter(g.clock.Now()); reason != "" {
		return nil, g.refusal(op, id, name, reason).WithRetryAfter(wait)
	}
	if ps != nil && name != listTarget {
		ps.keep(g, name)
		return func() {}, nil
	}
	return func() { g.leave(name) }, nil
}

func (g *guarded) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.targets[name].inFlight--
}

func (g *guarded) refusal(op, id, name, reason string) *provider.Error {
	what := "the provider"
	if name == listTarget {
		what = "the provider's list"
	} else if name != "" {
		what = "target " + name
	}
	err := fmt.Errorf("%s is busy: its calls in flight are at their limit", what)
	if reason == provider.ReasonUnreachable {
		err = fmt.Errorf("%s did not answer; it is tried again now and then", what)
	}
	return provider.Wrap(provider.ErrTransient, op, g.name, id, err).WithReason(reason)
}

// guardedUpdater is a guarded provider that changes credentials in place.
type guardedUpdater struct {
	*guarded
	updater provider.CredentialUpdater
}

func (g *guardedUpdater) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return g.call(ctx, "updatecredentials", ref, func() error { return g.updater.UpdateCredentials(ctx, ref, creds) })
}
