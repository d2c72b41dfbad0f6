package instrument_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// zoned is a provider with a target for each zone, which is what an ID begins with. The calls to a zone that is held
// answer when it is let go, or not before their deadline.
type zoned struct {
	*plain
	mu    sync.Mutex
	held  map[string]chan struct{}
	calls map[string]int
	err   error
	errs  map[string]error // by zone
}

func (z *zoned) Target(ref provider.Ref) string { zone, _, _ := strings.Cut(ref.ID, "/"); return zone }

func (z *zoned) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	return &provider.Instance{ID: ref.ID}, z.call(ctx, z.Target(ref))
}
func (z *zoned) Delete(ctx context.Context, ref provider.Ref) error {
	return z.call(ctx, z.Target(ref))
}
func (z *zoned) Create(ctx context.Context, _ provider.CreateRequest, ref provider.Ref) error {
	return z.call(ctx, z.Target(ref))
}
func (z *zoned) ListByTag(ctx context.Context) (provider.Listing, error) {
	return provider.Listing{}, z.call(ctx, "list")
}
func (z *zoned) UpdateCredentials(ctx context.Context, ref provider.Ref, _ provider.Credentials) error {
	return z.call(ctx, z.Target(ref))
}

func (z *zoned) call(ctx context.Context, zone string) error {
	z.mu.Lock()
	z.calls[zone]++
	held := z.held[zone]
	err := z.err
	if e := z.errs[zone]; e != nil {
		err = e
	}
	z.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done():
			return provider.Wrap(provider.ErrTransient, "get", "exits", zone, ctx.Err())
		}
	}
	return err
}

func (z *zoned) hold(zone string) (release func()) {
	z.mu.Lock()
	defer z.mu.Unlock()
	held := make(chan struct{})
	z.held[zone] = held
	return func() {
		z.mu.Lock()
		defer z.mu.Unlock()
		close(held)
		if z.held[zone] == held {
			delete(z.held, zone)
		}
	}
}

// unhold lets new calls to the zone through; those that hang go on to.
func (z *zoned) unhold(zone string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.held, zone)
}

// fail makes new calls to the zone fail, or not.
func (z *zoned) fail(zone string, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.errs[zone] = err
}

func (z *zoned) made(zone string) int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.calls[zone]
}

// guarding runs f in a bubble with a guarded provider.
func guarding(t *testing.T, f func(t *testing.T, z *zoned, p provider.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		f(t, z, instrument.WithGuard(z, "exits", clock.RealClock{}))
	})
}

// pass lets the bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }

func ref(id string) provider.Ref { return provider.Ref{ID: id} }

// get calls Get with half a minute's patience.
func get(t *testing.T, p provider.Provider, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := p.Get(ctx, ref(id))
	return err
}

func expectReason(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if provider.Reason(err) != reason || reason == "" && instrument.IsShut(err) || (reason != "" && !errors.Is(err, provider.ErrTransient)) {
		t.Errorf("%s = %v with reason %q, want reason %q", what, err, provider.Reason(err), reason)
	}
}

func TestGuardBoundsCallsInFlightPerTarget(t *testing.T) {
	guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
		var wg sync.WaitGroup
		crowd := func(n int) {
			for range n {
				wg.Go(func() { _ = get(t, p, "a/x") })
			}
			synctest.Wait()
		}
		release := z.hold("a")
		crowd(10)
		if got := z.made("a"); got != 1 {
			t.Errorf("%d calls to a target that has never answered, want 1", got)
		}
		expectReason(t, "one more", get(t, p, "a/y"), provider.ReasonBusy)
		expectReason(t, "another target", get(t, p, "b/y"), "")
		release()
		wg.Wait()

		release = z.hold("a")
		crowd(10)
		if got := z.made("a"); got != 1+4 {
			t.Errorf("%d calls in flight to a target that answers, want 4", got-1)
		}
		release()
		wg.Wait()
		expectReason(t, "after they ended", get(t, p, "a/y"), "")
	})
}

func TestGuardLeavesASilentTargetAlone(t *testing.T) {
	guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
		if err := get(t, p, "a/x"); err != nil {
			t.Fatal(err)
		}
		release := z.hold("a")
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _ = get(t, p, "a/x") })
		}
		wg.Wait() // all four without an answer, at one time: that is one silence
		for _, seconds := range []int{10, 20, 40, 80, 160, 300, 300} {
			wait := time.Duration(seconds) * time.Second
			before := z.made("a")
			err := get(t, p, "a/x")
			expectReason(t, "right after a silence", err, provider.ReasonUnreachable)
			if after := provider.RetryAfter(err); after != wait {
				t.Errorf("told to wait %s, want %s", after, wait)
			}
			pass(wait - time.Second)
			expectReason(t, "a second too early", get(t, p, "a/x"), provider.ReasonUnreachable)
			if got := z.made("a"); got != before {
				t.Fatalf("%d calls reached a target that is left alone", got-before)
			}
			pass(time.Second)
			wg.Go(func() { _ = get(t, p, "a/x") })
			synctest.Wait()
			expectReason(t, "beside the one that tries", get(t, p, "a/x"), provider.ReasonUnreachable)
			wg.Wait()
			if got := z.made("a"); got != before+1 {
				t.Fatalf("%d calls tried, want 1", got-before)
			}
		}
		expectReason(t, "another target meanwhile", get(t, p, "b/x"), "")
		release()
		pass(5 * time.Minute)
		for range 3 {
			expectReason(t, "after an answer", get(t, p, "a/x"), "")
		}
	})
}

func TestGuardTakesAnyAnswerForAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		reason string // of the next call
	}{
		"not found":   {provider.Wrap(provider.ErrNotFound, "get", "exits", "a/x", nil), ""},
		"throttled":   {provider.Wrap(provider.ErrTransient, "get", "exits", "a/x", nil).WithRetryAfter(time.Minute), ""},
		"unreachable": {provider.Wrap(provider.ErrTransient, "get", "exits", "a/x", nil).WithReason(provider.ReasonUnreachable), provider.ReasonUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
				z.err = tc.err
				if err := get(t, p, "a/x"); !errors.Is(err, tc.err) {
					t.Errorf("Get = %v, want %v unchanged", err, tc.err)
				}
				z.err = nil
				expectReason(t, "the next call", get(t, p, "a/x"), tc.reason)
			})
		})
	}
}

func TestGuardDoesNotBlameTheTargetForItsCallers(t *testing.T) {
	guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
		release := z.hold("a")
		defer release()
		for name, patience := range map[string]time.Duration{"given up": 0, "hardly any time left": 900 * time.Millisecond} {
			ctx, cancel := context.WithCancel(t.Context())
			if patience > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), patience)
			} else {
				go func() { pass(20 * time.Second); cancel() }()
			}
			_, err := p.Get(ctx, ref("a/x"))
			cancel()
			expectReason(t, name, err, "")
		}
		before := z.made("a")
		_ = get(t, p, "a/x")
		if z.made("a") != before+1 {
			t.Error("the target is left alone although nobody waited for it")
		}
	})
}

func TestGuardKeepsListsApart(t *testing.T) {
	guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
		release := z.hold("a")
		var wg sync.WaitGroup
		wg.Go(func() { _ = get(t, p, "a/x") })
		synctest.Wait()
		if _, err := p.ListByTag(t.Context()); err != nil {
			t.Errorf("ListByTag beside a silent target = %v", err)
		}
		release()
		wg.Wait()
	})
}

func TestPassKeepsItsPlace(t *testing.T) {
	guarding(t, func(t *testing.T, z *zoned, p provider.Provider) {
		ctx, end := instrument.WithPass(t.Context())
		if err := instrument.Reserve(ctx, p, ref("a/x")); err != nil {
			t.Fatal(err)
		}
		expectReason(t, "while the only place is reserved", get(t, p, "a/y"), provider.ReasonBusy)
		if _, err := p.Get(ctx, ref("a/x")); err != nil {
			t.Errorf("Get in the pass = %v", err)
		}
		if err := p.Create(ctx, provider.CreateRequest{}, ref("a/x")); err != nil {
			t.Errorf("Create in the pass = %v", err)
		}
		u, _ := instrument.As[provider.CredentialUpdater](p)
		if err := u.UpdateCredentials(ctx, ref("a/x"), provider.Credentials{}); err != nil {
			t.Errorf("UpdateCredentials in the pass = %v", err)
		}
		others := make([]func(), 0, 3)
		for range 3 {
			ctx, end := instrument.WithPass(t.Context())
			if err := instrument.Reserve(ctx, p, ref("a/x")); err != nil {
				t.Errorf("a place for one more pass: %v", err)
			}
			others = append(others, end)
		}
		expectReason(t, "Delete outside of the passes", p.Delete(t.Context(), ref("a/x")), provider.ReasonBusy)
		if err := p.Delete(ctx, ref("a/x")); err != nil {
			t.Errorf("Delete in the pass = %v", err)
		}
		end()
		end() // twice does nothing
		if err := p.Delete(t.Context(), ref("a/x")); err != nil {
			t.Errorf("Delete after the pass = %v", err)
		}
		for _, end := range others {
			end()
		}
		if err := instrument.Reserve(t.Context(), p, ref("a/x")); err != nil {
			t.Errorf("Reserve without a pass = %v", err)
		}
		if err := instrument.Reserve(ctx, newPlain(nil), ref("a/x")); err != nil {
			t.Errorf("Reserve without a guard = %v", err)
		}
	})
}

func TestGuardWithoutTargetsIsOneTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		p := instrument.WithGuard(struct{ provider.Provider }{z}, "exits", clock.RealClock{})
		release := z.hold("a")
		var wg sync.WaitGroup
		wg.Go(func() { _ = get(t, p, "a/x") })
		synctest.Wait()
		expectReason(t, "any other ID", get(t, p, "b/x"), provider.ReasonBusy)
		if _, ok := instrument.As[provider.CredentialUpdater](p); ok {
			t.Error("the decorator claims to update credentials although the provider cannot")
		}
		release()
		wg.Wait()
	})
}

// planning is zoned with a Plan that asks the zone.
type planning struct{ *zoned }

func (p planning) PlanTarget(req provider.CreateRequest) string { return req.Placement.Zone }

func (p planning) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	return req.Placement.Zone + "/x", p.call(ctx, req.Placement.Zone)
}

// A Plan that asks a host takes a place there as every other call does; one that asks nobody is not held up.
func TestGuardBoundsPlansThatAskATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		p := instrument.WithGuard(planning{z}, "exits", clock.RealClock{})
		plan := func(zone string) error {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			_, err := p.Plan(ctx, provider.CreateRequest{Placement: provider.Placement{Zone: zone}})
			return err
		}
		release := z.hold("a")
		defer release()
		var wg sync.WaitGroup
		wg.Go(func() { _ = plan("a") })
		synctest.Wait()
		expectReason(t, "Plan beside one that hangs", plan("a"), provider.ReasonBusy)
		expectReason(t, "Get beside a Plan that hangs", get(t, p, "a/x"), provider.ReasonBusy)
		expectReason(t, "Plan on another target", plan("b"), "")
		wg.Wait()
		expectReason(t, "Plan on a silent target", plan("a"), provider.ReasonUnreachable)
		if n := z.made("a"); n != 1 {
			t.Errorf("%d calls to the silent target, want 1", n)
		}
		expectReason(t, "Plan that asks nobody", plan(""), "")
	})
}
