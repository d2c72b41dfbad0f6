package providertest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// BackendCheckerHarness makes environments on a fresh backend, as BackendHarness does, with everything that a harness for
// checkers can do. made constructs the provider under test; nil means Checked.
func BackendCheckerHarness(kind Kind, opts BackendOptions, made func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider) CheckerHarness {
	if made == nil {
		made = func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
			return b.Checked(name, owner, w)
		}
	}
	return func(t T) *CheckerEnv {
		var backend *Backend
		env := BackendHarness(kind, opts, func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
			backend = b
			return made(b, name, owner, w)
		})(t)
		env.Provider(entryName, env.Owner) // makes the backend known
		return backendCheckerEnv(env, backend)
	}
}

func backendCheckerEnv(env *Env, b *Backend) *CheckerEnv {
	ids := map[string]string{}
	for _, zone := range b.opts.Zones {
		ids[zone] = "zones/" + zone + "/instances/proxy-a"
	}
	everywhere := func(op string, _ string) bool { return op == OpCheck }
	first := b.opts.Zones[0]
	return &CheckerEnv{
		Env: env, Targets: b.opts.Zones, IDs: ids, Secrets: []string{"sentinel-credentials-77aa"},
		States: []CheckState{
			{Name: "credentials that are refused", Reason: provider.CheckUnauthorized, Bring: func() func() {
				return b.suffer(everywhere, Fault{Err: fmt.Errorf("%w: unauthenticated", provider.ErrDenied)})
			}},
			{Name: "an error", Reason: provider.CheckAPIError, Bring: func() func() {
				return b.suffer(everywhere, Fault{Err: errors.New("internal error")})
			}},
			{Name: "a zone that is away", Reason: provider.CheckUnreachable, Targets: []string{first}, Bring: func() func() {
				b.SetUnread(first, true)
				return func() { b.SetUnread(first, false) }
			}},
		},
		Say: func(text string) func() { return b.suffer(everywhere, Fault{Err: errors.New(text)}) },
		Hang: func(target string) func() {
			hung := make(chan struct{})
			mend := b.suffer(func(_, zone string) bool { return zone == target }, Fault{Hold: hung})
			return sync.OnceFunc(func() { mend(); close(hung) })
		},
	}
}

// suffer makes the calls that match suffer f, on top of the hook that is installed, until restored. Those that are on top of
// each other are to be restored the last one first.
func (b *Backend) suffer(match func(op, zone string) bool, f Fault) (restore func()) {
	b.mu.Lock()
	before := b.hook
	b.mu.Unlock()
	b.OnCall(func(op string, ref provider.Ref) (fault Fault) {
		if before != nil {
			fault = before(op, ref)
		}
		if zone, _ := b.zoneOf(ref.ID); match(op, zone) {
			return f
		}
		return fault
	})
	return func() { b.OnCall(before) }
}
