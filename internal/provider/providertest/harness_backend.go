package providertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// BackendHarness makes environments on a fresh backend with a fake clock, with everything that a harness can do. made
// constructs the provider under test; nil means Watching.
func BackendHarness(kind Kind, opts BackendOptions, made func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider) Harness {
	if made == nil {
		made = func(b *Backend, name string, owner provider.Owner, w provider.Window) provider.Provider {
			return Watching{Updating{b.Provider(name, owner, w)}}
		}
	}
	return func(T) *Env {
		c := clocktesting.NewFakePassiveClock(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
		b := NewBackend(kind, c, opts)
		w := provider.Window{Clock: c, CallTimeout: 30 * time.Second, Visibility: opts.Visibility, Skew: 5 * time.Second}
		return backendEnv(b, c, w, func(name string, owner provider.Owner) provider.Provider { return made(b, name, owner, w) })
	}
}

func backendEnv(b *Backend, c *clocktesting.FakePassiveClock, w provider.Window, made func(string, provider.Owner) provider.Provider) *Env {
	var mu sync.Mutex // Wait may be called from several goroutines
	advance := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		c.SetTime(c.Now().Add(d))
	}
	once := func(f Fault) { b.onNext(OpCreate, f) }
	request := requests()
	bad := func(field, value string, change func(*provider.CreateRequest)) Invalid {
		req := request()
		change(&req)
		return Invalid{Request: req, Field: field, Value: value}
	}
	return &Env{
		Provider: made,
		Owner:    provider.Owner{Installation: "conformance-a", Cluster: "cluster-a"},
		Request:  request,
		Invalid: []Invalid{
			bad("placement.zone", "nowhere", func(r *provider.CreateRequest) { r.Placement.Zone = "nowhere" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
			bad("cloudInit", "262145", func(r *provider.CreateRequest) { r.CloudInit = string(make([]byte, maxCloudInit+1)) }),
		},
		ForeignIDs:   []string{"zones/nowhere/instances/proxy-a"},
		MalformedIDs: []string{"zones/zone-a/instances/", "zones//instances/a", "zones/zone-a/disks/a"},
		Window:       w,
		Wait:         func(ctx context.Context) error { advance(time.Second); return ctx.Err() },
		Leftovers: func(context.Context) (left []string, err error) {
			for _, l := range b.Instances() {
				left = append(left, l.String())
			}
			return left, nil
		},
		Many:     250,
		Advance:  advance,
		HoldBoot: func() func() { b.SetBootDelay(24 * time.Hour); return func() { b.hurryBoot() } },
		HoldCreate: func() (<-chan struct{}, func()) {
			return b.hold(OpCreateRead)
		},
		HoldGet:    func() (<-chan struct{}, func()) { return b.hold(OpGet) },
		HoldSend:   func() (<-chan struct{}, func()) { return b.hold(OpCreate) },
		HoldDelete: func() (<-chan struct{}, func()) { return b.hold(OpDelete) },
		LoseAnswer: func() { once(Fault{Applied: true}) },
		ArriveLate: func(d time.Duration) { once(Fault{ArriveAfter: d}) },
		ShowLate:   func(d time.Duration) { once(Fault{VisibleAfter: d}) },
		FailLate: func(class error, leave bool) {
			once(Fault{FailLate: fmt.Errorf("%w: the backend gave up", class), LeaveParts: leave})
		},
		Place: func(id string) func() bool {
			identity := b.Place(id, map[string]string{"team": "somebody else's"}, 80)
			return func() bool {
				for _, l := range b.Instances() {
					if l.ID == id {
						return l.Identity == identity && !l.Deleting && len(l.Parts) == 2
					}
				}
				return false
			}
		},
		Stop:      func(id string) { b.Stop(id, "preempted") },
		Terminate: func(id string) { b.Terminate(id) },
		Confuse:   func(id string) { b.Confuse(id) },
		Vanish:    func(id string) { b.Vanish(id) },
		LoseMain:  func(id string) { b.LoseMain(id) },
		BreakScope: func(id string) func() {
			zone, _ := b.zoneOf(id)
			b.SetUnread(zone, true)
			return func() { b.SetUnread(zone, false) }
		},
		ExhaustQuota: func() func() { b.SetCapacity(-1); return func() { b.SetCapacity(0) } },
		Throttle: func(d time.Duration) func() {
			return b.refuse(Fault{Err: errors.New("too many requests"), RetryAfter: d})
		},
		Deny:               func() func() { return b.refuse(Fault{Err: fmt.Errorf("%w: unauthenticated", provider.ErrDenied)}) },
		CredentialRevision: b.CredentialRevision,
	}
}

// requests returns a source of valid requests, each with a UID of its own.
func requests() func() provider.CreateRequest {
	var mu sync.Mutex
	n := 0
	return func() provider.CreateRequest {
		mu.Lock()
		defer mu.Unlock()
		n++
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		return provider.CreateRequest{
			Name: provider.NameFromUID(uid), UID: uid, Namespace: "crawlers", ProxyName: fmt.Sprintf("exit-%d", n), Port: 3128,
			Spec: "v1-0123456789abcdef",
		}
	}
}

// onNext makes the next call of op suffer f, on top of the hook that is installed.
func (b *Backend) onNext(op string, f Fault) {
	b.mu.Lock()
	before := b.hook
	b.mu.Unlock()
	var used sync.Once
	b.OnCall(func(called string, ref provider.Ref) (fault Fault) {
		if before != nil {
			fault = before(called, ref)
		}
		if called == op {
			used.Do(func() { fault = f })
		}
		return fault
	})
}

// hold pauses the next call of op.
func (b *Backend) hold(op string) (<-chan struct{}, func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var arrived, done sync.Once
	b.OnCall(func(called string, _ provider.Ref) (f Fault) {
		if called == op {
			arrived.Do(func() { f.Hold = released; close(reached) })
		}
		return f
	})
	return reached, func() { done.Do(func() { close(released) }) }
}

// refuse makes every call suffer f until restored.
func (b *Backend) refuse(f Fault) func() {
	b.OnCall(func(string, provider.Ref) Fault { return f })
	return func() { b.OnCall(nil) }
}

// hurryBoot brings every instance that still boots to run now, and new ones as the options say.
func (b *Backend) hurryBoot() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.settle()
	b.bootDelay = b.opts.BootDelay
	for _, m := range b.machines {
		if m.visible && m.running.After(now) {
			m.running = now
		}
	}
}
