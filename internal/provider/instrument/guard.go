package instrument

import (
	"context"
	"sync"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// WithGuard returns p with its calls limited per target (provider.Targeter; a provider without it is one target), so that
// a part of a backend that does not answer holds up neither the others nor the callers' workers:
//
//   - at most 4 calls are in flight to a target that answers, and 1 to a target that has not answered yet or whose last
//     call ended without an answer;
//   - a target that is unreachable or denied has its gate shut: nobody is let through, but one call, the canary, after 10 s
//     doubling up to 5 min (unreachable) or after 1 min doubling up to 15 min (denied). The first answer to a call that
//     began after the gate was shut opens it, and so does a check (see Begin). A target that fails again sooner after it
//     has opened than it was left alone goes on doubling.
//
// A call that is not let through fails at once: with ErrTransient and provider.ReasonBusy where a place will be free soon,
// and at a shut gate with ErrTransient and provider.ReasonUnreachable, or with ErrDenied, with a *ShutError in the chain and
// with the delay until it is worth asking again. The call that has shut the gate fails in the same words.
//
// Denied is a target that answers ErrDenied. Unreachable is one whose call failed with provider.ReasonUnreachable, or whose
// deadline passed (after a second at least). Anything else is an answer, also an error.
//
// ListByTag speaks to all targets and is a target of its own. As long as it is denied, so are all the others, until a list
// is answered or a check finds a target ready. Plan is limited where it says which target it asks (provider.PlanTargeter).
// The result implements provider.CredentialUpdater exactly when p does.
func WithGuard(p provider.Provider, name string, c clock.PassiveClock, opts ...GuardOption) provider.Provider {
	g := &guarded{Provider: p, name: name, clock: c, targets: map[string]*target{}, retired: map[*Retirement]struct{}{}}
	for _, o := range opts {
		o(g)
	}
	g.targeter, _ = As[provider.Targeter](p)
	g.planner, _ = As[provider.PlanTargeter](p)
	if u, ok := As[provider.CredentialUpdater](p); ok {
		return &guardedUpdater{guarded: g, updater: u}
	}
	return g
}

// GuardOption changes what WithGuard returns.
type GuardOption func(*guarded)

// OnOpen has f called with the entry's name and the target whenever a gate has opened, once each time; the target is ""
// where the provider has none, and when lists are not denied any more. f must not block. It may call the provider.
func OnOpen(f func(providerName, target string)) GuardOption {
	return func(g *guarded) { g.onOpen = f }
}

// OnShut has f called with the entry's name whenever a call has shut a gate that was open, so that others can look what is the
// matter. No lock is held; f must not block.
func OnShut(f func(providerName string)) GuardOption {
	return func(g *guarded) { g.onShut = f }
}

// listTarget is the target of lists; no name of a target is like it.
const listTarget = "\x00list"

type guarded struct {
	provider.Provider
	name     string
	clock    clock.PassiveClock
	targeter provider.Targeter     // nil: everything is one target
	planner  provider.PlanTargeter // nil: Plan asks nobody
	onOpen   func(providerName, target string)
	onShut   func(providerName string)
	refusals RefusalRecorder // nil: nobody counts

	mu      sync.Mutex
	last    order
	targets map[string]*target
	// inUse counts the places that are taken at all targets, and plans that asked nobody.
	inUse   int
	retired map[*Retirement]struct{}
}

// next numbers what happens now. The guard's lock is held.
func (g *guarded) next() order { g.last++; return g.last }

// target returns what is known of a target. The guard's lock is held.
func (g *guarded) target(name string) *target {
	t := g.targets[name]
	if t == nil {
		t = &target{}
		g.targets[name] = t
	}
	return t
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
		return g.planFreely(ctx, req)
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

// guardedUpdater is a guarded provider that changes credentials in place.
type guardedUpdater struct {
	*guarded
	updater provider.CredentialUpdater
}

func (g *guardedUpdater) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return g.call(ctx, "updatecredentials", ref, func() error { return g.updater.UpdateCredentials(ctx, ref, creds) })
}
