package lease

import (
	"testing"
	"time"
)

func TestExpiryIsExact(t *testing.T) {
	f := newFixture(t)
	key := f.put("a", withCap(1))
	l := f.acquire(t, ask(""))
	f.clock.SetTime(l.ExpiresAt.Add(-1))
	if _, err := f.ledger.Get(l.ID, l.Principal); err != nil {
		t.Errorf("a nanosecond before: %v", err)
	}
	if got := f.ledger.LiveOn(key); got != 1 {
		t.Errorf("a nanosecond before: %d live, want 1", got)
	}
	f.clock.SetTime(l.ExpiresAt)
	_, err := f.ledger.Get(l.ID, l.Principal)
	wantErr(t, "Get at expiry", err, ErrExpired)
	_, err = f.ledger.Renew(l.ID, l.Principal, time.Minute)
	wantErr(t, "Renew at expiry", err, ErrExpired)
	if got := f.ledger.LiveOn(key) + f.ledger.Live(); got != 0 {
		t.Errorf("at expiry: %d live, want 0", got)
	}
	f.clock.SetTime(epoch)
	_, err = f.ledger.Get(l.ID, l.Principal)
	wantErr(t, "Get after the clock was set back", err, ErrExpired)
	f.clock.SetTime(l.ExpiresAt.Add(DefaultCooldownWindow))
	_, err = f.ledger.Get(l.ID, l.Principal)
	wantErr(t, "Get after the window", err, ErrUnknownLease)
}

func TestRenewNeverPassesTheLifetime(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxLifetime = 100 * time.Second })
	f.put("a")
	l := f.acquire(t, ask(""))
	f.clock.Step(50 * time.Second)
	renewed, err := f.ledger.Renew(l.ID, l.Principal, 10*time.Second)
	if err != nil || !renewed.ExpiresAt.Equal(epoch.Add(60*time.Second)) {
		t.Fatalf("Renew = %v, %v", renewed.ExpiresAt, err)
	}
	f.clock.Step(5 * time.Second)
	renewed, err = f.ledger.Renew(l.ID, l.Principal, time.Hour)
	if err != nil || !renewed.ExpiresAt.Equal(epoch.Add(100*time.Second)) || renewed.TTL != 45*time.Second {
		t.Fatalf("Renew past the lifetime = %v (ttl %v), %v", renewed.ExpiresAt, renewed.TTL, err)
	}
	f.clock.Step(45 * time.Second)
	_, err = f.ledger.Renew(l.ID, l.Principal, time.Hour)
	wantErr(t, "Renew at the end of the lifetime", err, ErrExpired)
}

func TestRenewMovesWhenTheProxyIsFree(t *testing.T) {
	f := newFixture(t)
	f.put("a", withCap(2))
	first := f.acquire(t, ask(""))
	f.clock.Step(time.Second)
	second := f.acquire(t, ask(""))
	if got := f.refused(t, ask("")).FreeAt; !got.Equal(first.ExpiresAt) {
		t.Errorf("free at %v, want %v", got, first.ExpiresAt)
	}
	if _, err := f.ledger.Renew(first.ID, first.Principal, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := f.refused(t, ask("")).FreeAt; !got.Equal(second.ExpiresAt) {
		t.Errorf("free at %v after the renewal, want %v", got, second.ExpiresAt)
	}
}

func TestLeasesBelongToTheirPrincipal(t *testing.T) {
	f := newFixture(t)
	key := f.put("a")
	l := f.acquire(t, ask(""))
	_, err := f.ledger.Get(l.ID, "other")
	wantErr(t, "Get", err, ErrUnknownLease)
	_, err = f.ledger.Renew(l.ID, "other", time.Minute)
	wantErr(t, "Renew", err, ErrUnknownLease)
	wantErr(t, "Report", f.ledger.Report(l.ID, "other", ResultBanned, ""), ErrUnknownLease)
	wantErr(t, "Release", f.ledger.Release(l.ID, "other"), nil)
	if got := f.ledger.LiveOn(key); got != 1 {
		t.Errorf("%d live after another principal's release, want 1", got)
	}
}

func TestLateReleaseDoesNotTouchTheNextHolder(t *testing.T) {
	f := newFixture(t)
	key := f.put("a", withCap(1))
	old := f.acquire(t, ask(""))
	f.clock.SetTime(old.ExpiresAt)
	next := f.acquire(t, ask(""))
	for range 2 {
		wantErr(t, "late Release", f.ledger.Release(old.ID, old.Principal), nil)
	}
	if got := f.ledger.LiveOn(key); got != 1 {
		t.Errorf("%d live, want the next holder's 1", got)
	}
	if _, err := f.ledger.Get(next.ID, next.Principal); err != nil {
		t.Errorf("the next holder's lease: %v", err)
	}
}

func TestReleasedLeaseIsUnknownButReportable(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	l := f.acquire(t, ask("shop.example"))
	wantErr(t, "Release", f.ledger.Release(l.ID, l.Principal), nil)
	_, err := f.ledger.Get(l.ID, l.Principal)
	wantErr(t, "Get", err, ErrUnknownLease)
	f.clock.Step(DefaultCooldownWindow - 1)
	f.report(t, l, "")
	f.refused(t, ask("shop.example"))
	f.clock.Step(1)
	wantErr(t, "Report after the window", f.ledger.Report(l.ID, l.Principal, ResultOK, ""), ErrUnknownLease)
}
