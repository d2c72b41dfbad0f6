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
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// openings keeps what OnOpen was told.
type openings struct {
	mu   sync.Mutex
	told []string
}

func (o *openings) note(name, target string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, name+"/"+target)
}

func (o *openings) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if got := strings.Join(o.told, " "); got != strings.Join(want, " ") {
		t.Errorf("%s: told of openings %q, want %q", when, got, want)
	}
	o.told = nil
}

// gating is guarding with a guard that tells of openings.
func gating(t *testing.T, f func(t *testing.T, z *zoned, p provider.Provider, o *openings)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		o := &openings{}
		f(t, z, instrument.WithGuard(z, "exits", clock.RealClock{}, instrument.OnOpen(o.note)), o)
	})
}

var errRevoked = errors.New("401: the key was revoked")

func denied() error { return provider.Wrap(provider.ErrDenied, "get", "exits", "x", errRevoked) }

// expectShut checks that a call was not made, or failed, as one at a shut gate does.
func expectShut(t *testing.T, what string, err, class error, wait time.Duration, says ...string) {
	t.Helper()
	if provider.Class(err) != class || !instrument.IsShut(err) {
		t.Errorf("%s = %v, want a shut gate and class %v", what, err, class)
		return
	}
	if got := provider.RetryAfter(err); wait > 0 && got != wait {
		t.Errorf("%s: told to wait %s, want %s", what, got, wait)
	}
	for _, s := range says {
		if !strings.Contains(provider.Cause(err), s) {
			t.Errorf("%s says %q, want it to say %q", what, provider.Cause(err), s)
		}
	}
}

func list(t *testing.T, p provider.Provider) error {
	t.Helper()
	_, err := p.ListByTag(t.Context())
	return err
}

// Whoever shows how targets are hears of a gate that a call has shut, once.
func TestAGateThatIsShutIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		var told []string
		p := instrument.WithGuard(z, "exits", clock.RealClock{}, instrument.OnShut(func(name string) { told = append(told, name) }))
		z.fail("a", denied())
		for range 3 {
			_ = get(t, p, "a/x")
			pass(2 * time.Minute)
		}
		if len(told) != 1 || told[0] != "exits" {
			t.Errorf("told %q", told)
		}
		z.fail("a", nil)
		pass(20 * time.Minute)
		expectReason(t, "mended", get(t, p, "a/x"), "")
		z.fail("a", denied())
		_ = get(t, p, "a/x")
		if len(told) != 2 {
			t.Errorf("told %q", told)
		}
	})
}

// Passes that were under way when a target turned have found out together, though one after the other.
func TestPassesUnderWayAreOneFailure(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, _ *openings) {
		expectReason(t, "before", get(t, p, "a/x"), "")
		var under []context.Context
		for range 4 {
			ctx, end := instrument.WithPass(t.Context())
			defer end()
			if _, err := p.Get(ctx, ref("a/x")); err != nil {
				t.Fatal(err)
			}
			under = append(under, ctx)
		}
		z.fail("a", denied())
		for _, ctx := range under {
			_, err := p.Get(ctx, ref("a/x"))
			expectShut(t, "a pass under way", err, provider.ErrDenied, time.Minute)
		}
		expectShut(t, "the next one", get(t, p, "a/y"), provider.ErrDenied, time.Minute)
	})
}

func TestADeniedTargetIsLeftAlone(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, o *openings) {
		expectReason(t, "before", get(t, p, "a/x"), "")
		z.fail("a", denied())
		first := get(t, p, "a/x")
		expectShut(t, "the call that finds out", first, provider.ErrDenied, time.Minute, "target a", "the key was revoked")
		if !errors.Is(first, errRevoked) || !instrument.IsShut(first) {
			t.Fatalf("%v has lost what the backend said", first)
		}
		for _, minutes := range []int{1, 2, 4, 8, 15, 15} {
			wait, before := time.Duration(minutes)*time.Minute, z.made("a")
			for name, call := range map[string]func(id string) error{
				"get": func(id string) error { return get(t, p, id) }, "delete": func(id string) error { return p.Delete(t.Context(), ref(id)) },
				"create":  func(id string) error { return p.Create(t.Context(), provider.CreateRequest{}, ref(id)) },
				"reserve": func(id string) error { return reserve(t, p, id) },
			} {
				err := call("a/y")
				expectShut(t, name, err, provider.ErrDenied, wait)
				if err == nil || provider.Cause(err) != provider.Cause(first) {
					t.Fatalf("%s says %v, the first said %v", name, err, first)
				}
			}
			pass(wait - time.Second)
			expectShut(t, "a second too early", get(t, p, "a/x"), provider.ErrDenied, time.Second)
			if z.made("a") != before {
				t.Fatalf("%d calls reached a target that is denied", z.made("a")-before)
			}
			pass(time.Second)
			release := z.hold("a")
			z.fail("a", provider.Wrap(provider.ErrDenied, "get", "exits", "x", errors.New("in other words")))
			var wg sync.WaitGroup
			wg.Go(func() { _ = get(t, p, "a/x") })
			synctest.Wait()
			expectShut(t, "beside the canary", get(t, p, "a/y"), provider.ErrDenied, time.Minute)
			release()
			wg.Wait()
			if z.made("a") != before+1 {
				t.Fatalf("%d calls tried, want 1", z.made("a")-before)
			}
		}
		expectReason(t, "another target meanwhile", get(t, p, "b/x"), "")
		expectReason(t, "a list meanwhile", list(t, p), "")
		o.expect(t, "while it is denied")
		z.fail("a", nil)
		pass(15 * time.Minute)
		for range 3 {
			expectReason(t, "after an answer", get(t, p, "a/x"), "")
		}
		o.expect(t, "after an answer", "exits/a")
	})
}

func reserve(t *testing.T, p provider.Provider, id string) error {
	t.Helper()
	ctx, end := instrument.WithPass(t.Context())
	defer end()
	return instrument.Reserve(ctx, p, ref(id))
}

func TestWhichErrorsShutAGate(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		class error // of the next call; nil: it is made
	}{
		"denied":            {denied(), provider.ErrDenied},
		"unreachable":       {provider.Wrap(provider.ErrTransient, "get", "exits", "", nil).WithReason(provider.ReasonUnreachable), provider.ErrTransient},
		"a 403 on creation": {provider.Wrap(provider.ErrPermanent, "create", "exits", "", errors.New("403")), nil},
		"not found":         {provider.Wrap(provider.ErrNotFound, "get", "exits", "", nil), nil},
		"a quota":           {provider.Wrap(provider.ErrQuotaExceeded, "create", "exits", "", nil), nil},
		"a conflict":        {provider.Wrap(provider.ErrConflict, "create", "exits", "", nil), nil},
		"a rate limit":      {provider.Wrap(provider.ErrTransient, "get", "exits", "", nil).WithRetryAfter(time.Hour), nil},
	} {
		for op, call := range map[string]func(t *testing.T, p provider.Provider) error{
			"get":    func(t *testing.T, p provider.Provider) error { t.Helper(); return get(t, p, "a/x") },
			"delete": func(t *testing.T, p provider.Provider) error { t.Helper(); return p.Delete(t.Context(), ref("a/x")) },
			"create": func(t *testing.T, p provider.Provider) error {
				t.Helper()
				return p.Create(t.Context(), provider.CreateRequest{}, ref("a/x"))
			},
			"update": func(t *testing.T, p provider.Provider) error {
				t.Helper()
				u, _ := instrument.As[provider.CredentialUpdater](p)
				return u.UpdateCredentials(t.Context(), ref("a/x"), provider.Credentials{})
			},
		} {
			t.Run(name+"/"+op, func(t *testing.T) {
				gating(t, func(t *testing.T, z *zoned, p provider.Provider, _ *openings) {
					z.fail("a", tc.err)
					if err := call(t, p); !errors.Is(err, tc.err) {
						t.Errorf("%v is not what the backend said", err)
					}
					z.fail("a", nil)
					before := z.made("a")
					err := get(t, p, "a/x")
					if tc.class != nil {
						expectShut(t, "the next call", err, tc.class, 0)
					} else if err != nil || z.made("a") != before+1 {
						t.Errorf("the next call = %v", err)
					}
				})
			})
		}
	}
}

// What is answered to a call from before the gate was shut does not open it: it began with the right that was taken away.
func TestAnAnswerFromBeforeDoesNotOpenAGate(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, o *openings) {
		_ = get(t, p, "a/x")
		release := z.hold("a")
		var wg sync.WaitGroup
		wg.Go(func() { _ = get(t, p, "a/old") })
		synctest.Wait()
		z.unhold("a")
		z.fail("a", denied())
		_ = get(t, p, "a/x")
		z.fail("a", nil)
		release()
		wg.Wait()
		expectShut(t, "after an old answer", get(t, p, "a/x"), provider.ErrDenied, time.Minute)
		o.expect(t, "after an old answer")
	})
}

// Nor does a refusal from before it opened shut it again.
func TestARefusalFromBeforeDoesNotShutAGate(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, p provider.Provider){
		"by a check": func(_ *testing.T, p provider.Provider) { instrument.Report(p, statuses("a", "")) },
		"by a call":  func(t *testing.T, p provider.Provider) { t.Helper(); pass(time.Minute); _ = get(t, p, "a/x") },
	} {
		t.Run(name, func(t *testing.T) {
			gating(t, func(t *testing.T, z *zoned, p provider.Provider, o *openings) {
				_ = get(t, p, "a/x")
				release := z.hold("a")
				z.fail("a", denied())
				ctx, end := instrument.WithPass(t.Context())
				defer end()
				var wg sync.WaitGroup
				wg.Go(func() { _ = p.Delete(t.Context(), ref("a/old")) })
				synctest.Wait()
				z.unhold("a")
				_, _ = p.Get(ctx, ref("a/x"))
				z.fail("a", nil)
				end()
				instrument.Report(p, statuses("a", ""))
				o.expect(t, "after a check", "exits/a")
				open(t, p)
				release()
				wg.Wait()
				expectReason(t, "after an old refusal", get(t, p, "a/x"), "")
			})
		})
	}
}

func TestADeniedListShutsTheWholeProvider(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, o *openings) {
		for _, zone := range []string{"a", "b"} {
			expectReason(t, zone, get(t, p, zone+"/x"), "")
		}
		z.fail("list", denied())
		expectShut(t, "the list", list(t, p), provider.ErrDenied, time.Minute, "the provider's list", "revoked")
		before := z.made("a") + z.made("b") + z.made("c")
		for _, zone := range []string{"a", "b", "c"} {
			expectShut(t, zone, get(t, p, zone+"/x"), provider.ErrDenied, time.Minute, "the provider's list", "revoked")
		}
		pass(time.Minute)
		// Nobody but a list finds out.
		expectShut(t, "when a list is due", get(t, p, "a/x"), provider.ErrDenied, time.Minute)
		expectShut(t, "the list's canary", list(t, p), provider.ErrDenied, 2*time.Minute)
		if z.made("list") != 2 || z.made("a")+z.made("b")+z.made("c") != before {
			t.Errorf("%v calls", z.calls)
		}
		z.fail("list", nil)
		pass(2 * time.Minute)
		o.expect(t, "before")
		expectReason(t, "the list", list(t, p), "")
		expectReason(t, "a", get(t, p, "a/x"), "")
		o.expect(t, "after a list", "exits/")

		z.fail("list", denied())
		_ = list(t, p)
		instrument.Report(p, statuses("a", "", "b", provider.CheckAPIError))
		expectReason(t, "after a check", get(t, p, "b/x"), "")
		o.expect(t, "after a check", "exits/")
	})
}

// A list that is not answered says nothing of the targets.
func TestASilentListShutsNobody(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, _ *openings) {
		z.fail("list", provider.Wrap(provider.ErrTransient, "list", "exits", "", nil).WithReason(provider.ReasonUnreachable))
		expectShut(t, "the list", list(t, p), provider.ErrTransient, 10*time.Second)
		expectReason(t, "a target", get(t, p, "a/x"), "")
	})
}

// A target that answers one kind of call and refuses another is left alone for longer each time.
func TestATargetThatIsShutAgainRightAwayGoesOnDoubling(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, _ *openings) {
		for _, minutes := range []int{1, 2, 4, 8, 15, 15} {
			z.fail("a", denied())
			expectShut(t, "delete", p.Delete(t.Context(), ref("a/x")), provider.ErrDenied, time.Duration(minutes)*time.Minute)
			z.fail("a", nil)
			pass(time.Duration(minutes) * time.Minute)
			expectReason(t, "get", get(t, p, "a/x"), "")
		}
		pass(15 * time.Minute)
		z.fail("a", denied())
		expectShut(t, "long after", get(t, p, "a/x"), provider.ErrDenied, time.Minute)
	})
}

// OnOpen runs without the guard's lock: it may call the provider.
func TestOnOpenMayCallTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		var p provider.Provider
		var got []error
		p = instrument.WithGuard(z, "exits", clock.RealClock{}, instrument.OnOpen(func(string, string) { got = append(got, get(t, p, "a/y")) }))
		instrument.Report(p, statuses("a", provider.CheckForbidden))
		instrument.Report(p, statuses("a", ""))
		if len(got) != 1 || got[0] != nil {
			t.Errorf("calls from OnOpen: %v", got)
		}
	})
}

// What a backend quotes to one Proxy is shown by all that wait.
func TestTheGateShowsNoSecrets(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, _ *openings) {
		z.fail("a", provider.Wrap(provider.ErrDenied, "create", "exits", "", errors.New("not allowed with password hunter2hunter2")))
		ctx := instrument.WithSecrets(context.WithoutCancel(t.Context()), message.NewSecrets([]string{"hunter2hunter2"}, nil))
		err := p.Create(ctx, provider.CreateRequest{}, ref("a/x"))
		for what, err := range map[string]error{"the first": err, "another": get(t, p, "a/y")} {
			expectShut(t, what, err, provider.ErrDenied, 0, "not allowed")
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s shows a secret: %v", what, err)
			}
		}
	})
}
