package lease

import (
	"context"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

type (
	proxy       = fleet.Proxy
	credentials = provider.Credentials
)

func TestLeasesEndWithTheirInstance(t *testing.T) {
	cases := map[string]struct {
		reason string
		first  func(*fleet.Proxy)
		change func(*fixture)
		back   bool
	}{
		"Replaced": {"another attempt is another instance", attempt(1), func(f *fixture) { f.put("a", attempt(2)) }, true},
		"Deleted":  {"the object is gone", attempt(1), func(f *fixture) { f.fleet.Remove(name("a"), "uid-a") }, false},
		"Moved":    {"an External proxy is its endpoint", external("one.test"), func(f *fixture) { f.put("a", external("two.test")) }, true},
	}
	for n, tc := range cases {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			key := f.put("a", tc.first)
			l := f.acquire(t, ask("shop.example"))
			f.report(t, l, "")
			tc.change(f)
			_, err := f.ledger.Get(l.ID, l.Principal)
			wantErr(t, tc.reason, err, ErrProxyGone)
			_, err = f.ledger.Renew(l.ID, l.Principal, time.Minute)
			wantErr(t, tc.reason, err, ErrProxyGone)
			if got := f.ledger.LiveOn(key) + f.ledger.Live(); got != 0 {
				t.Errorf("%s: %d live, want 0", tc.reason, got)
			}
			if got := f.ledger.cooling.Len(); got != 0 {
				t.Errorf("%s: %d cooldowns are kept", tc.reason, got)
			}
			if tc.back {
				f.acquire(t, ask("shop.example"))
			}
			f.clock.Step(DefaultCooldownWindow)
			_, err = f.ledger.Get(l.ID, l.Principal)
			wantErr(t, "after the window", err, ErrUnknownLease)
		})
	}
}

func TestWithdrawHoldsUntilTheKeyIsGone(t *testing.T) {
	f := newFixture(t)
	key := f.put("a")
	l := f.acquire(t, ask(""))
	if got := f.ledger.Withdraw(key); got != 1 {
		t.Errorf("Withdraw = %d, want 1", got)
	}
	f.refused(t, ask(""))
	_, err := f.ledger.Renew(l.ID, l.Principal, time.Minute)
	wantErr(t, "Renew", err, ErrDraining)
	if _, err := f.ledger.Get(l.ID, l.Principal); err != nil {
		t.Errorf("Get of a lease on a withdrawn proxy: %v", err)
	}
	wantErr(t, "Release", f.ledger.Release(l.ID, l.Principal), nil)
	if got := f.ledger.Withdraw(key); got != 0 {
		t.Errorf("Withdraw after the release = %d, want 0", got)
	}
	f.clock.Step(24 * time.Hour)
	f.refused(t, ask(""))
	f.put("a", attempt(2))
	f.acquire(t, ask(""))
	f.put("a")
	f.acquire(t, ask(""))
}

func TestReadmit(t *testing.T) {
	f := newFixture(t)
	key := f.put("a")
	f.ledger.Readmit(key)
	f.ledger.Withdraw(key)
	f.ledger.Readmit(key)
	f.acquire(t, ask(""))
}

func TestDrainingIsSeenFromTheFleetToo(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	l := f.acquire(t, ask(""))
	f.put("a", draining)
	_, err := f.ledger.Renew(l.ID, l.Principal, time.Minute)
	wantErr(t, "Renew", err, ErrDraining)
	f.put("a", cordoned)
	if _, err := f.ledger.Renew(l.ID, l.Principal, time.Minute); err != nil {
		t.Errorf("Renew on a cordoned proxy: %v; it is offered to nobody new, its holders stay", err)
	}
}

func TestWithdrawingWhatTheFleetDoesNotKnowIsForgotten(t *testing.T) {
	f := newFixture(t)
	early := fleet.LeaseKey{UID: "uid-a", Attempt: 1}
	f.ledger.Withdraw(early)
	f.ledger.Withdraw(fleet.LeaseKey{UID: "never", Attempt: 7})
	f.ledger.Withdraw(fleet.LeaseKey{UID: "never", Attempt: 7})
	f.put("a")
	f.refused(t, ask(""))
	f.clock.Step(DefaultCooldownWindow)
	f.refused(t, ask(""))
	if got := len(f.ledger.accounts); got != 1 {
		t.Errorf("%d accounts, want that of the proxy alone", got)
	}
	f.ledger.Withdraw(fleet.LeaseKey{UID: "never", Attempt: 7})
	f.ledger.Readmit(fleet.LeaseKey{UID: "never", Attempt: 7})
	if got := len(f.ledger.accounts) + f.ledger.strays.Len(); got != 1 {
		t.Errorf("%d accounts and strays after Readmit, want 1", got)
	}
}

func TestSweepNeedsNoCaller(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	f.acquire(t, ask(""))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- f.ledger.Start(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); ; {
		if f.clock.HasWaiters() {
			f.clock.Step(time.Hour)
		}
		f.ledger.mu.Lock()
		left := len(f.ledger.leases)
		f.ledger.mu.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("never swept")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Start = %v", err)
	}
}
