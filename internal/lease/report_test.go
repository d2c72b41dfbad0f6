package lease

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestReportTargetFallsBack(t *testing.T) {
	cases := map[string]struct {
		reason             string
		leased, reported   string
		result             Result
		refused, stillFree []string
	}{
		"Report": {"the report's own target counts", "a.example", "b.example", ResultBanned, []string{"b.example"}, []string{"a.example", ""}},
		"Lease":  {"without one, the lease's", "a.example", "", ResultRateLimited, []string{"a.example"}, []string{"b.example", ""}},
		"Global": {"without either it rests for all", "", "", ResultBanned, []string{"a.example", ""}, nil},
		"OK":     {"a good report changes nothing", "a.example", "", ResultOK, nil, []string{"a.example", ""}},
	}
	for n, tc := range cases {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			f.put("a")
			l := f.acquire(t, ask(tc.leased))
			if err := f.ledger.Report(l.ID, l.Principal, tc.result, tc.reported); err != nil {
				t.Fatal(err)
			}
			for _, target := range tc.refused {
				want := NoMatchError{Considered: 1, InCooldown: 1, FreeAt: epoch.Add(DefaultCooldownWindow)}
				if got := f.refused(t, ask(target)); got != want {
					t.Errorf("%s: for %q: %+v, want %+v", tc.reason, target, got, want)
				}
			}
			for _, target := range tc.stillFree {
				f.acquire(t, ask(target))
			}
		})
	}
	f := newFixture(t)
	wantErr(t, "an unknown result", f.ledger.Report("x", "crawler", "meh", ""), ErrResult)
}

func TestCooldownOnlyLengthens(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	l := f.acquire(t, Request{TTL: time.Hour, Principal: "crawler"})
	f.report(t, l, "a.example")
	f.clock.Step(time.Minute)
	f.report(t, l, "a.example")
	f.clock.SetTime(epoch)
	f.report(t, l, "a.example")
	f.clock.SetTime(epoch.Add(time.Minute + DefaultCooldownWindow - 1))
	f.refused(t, ask("a.example"))
	f.clock.Step(1)
	f.acquire(t, ask("a.example"))
}

func TestTooManyTargetsCoolForEveryTarget(t *testing.T) {
	f := newFixture(t)
	key := f.put("a")
	l := f.acquire(t, Request{TTL: time.Hour, Principal: "crawler"})
	for i := range MaxTargets {
		f.report(t, l, "t"+strconv.Itoa(i)+".example")
	}
	f.acquire(t, ask("other.example"))
	f.report(t, l, "t0.example")
	f.acquire(t, ask("other.example"))
	f.report(t, l, "one-more.example")
	f.refused(t, ask("other.example"))
	f.refused(t, ask("t1.example"))
	wantErr(t, "ClearCooldowns", f.ledger.ClearCooldowns(key, "one-more.example"), nil)
	f.refused(t, ask("one-more.example"))
	wantErr(t, "ClearCooldowns", f.ledger.ClearCooldowns(key, ""), nil)
	f.acquire(t, ask("t1.example"))
	if got := f.ledger.cooling.Len(); got != 0 {
		t.Errorf("%d cooldowns left, want 0", got)
	}
}

func TestClearCooldownOfOneTarget(t *testing.T) {
	f := newFixture(t)
	key := f.put("a")
	l := f.acquire(t, ask(""))
	f.report(t, l, "a.example")
	f.report(t, l, "b.example")
	wantErr(t, "ClearCooldowns", f.ledger.ClearCooldowns(key, "a.example"), nil)
	f.acquire(t, ask("a.example"))
	f.refused(t, ask("b.example"))
}

func TestLateReportCannotBanASuccessor(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	l := f.acquire(t, ask("shop.example"))
	f.put("a", attempt(2))
	f.report(t, l, "")
	if got := f.ledger.cooling.Len(); got != 0 {
		t.Errorf("%d cooldowns are kept for an instance that is gone", got)
	}
	if got := f.acquire(t, ask("shop.example")).Key.Attempt; got != 2 {
		t.Errorf("leased attempt %d, want 2", got)
	}
}

func TestRotationOfCredentialsForgetsNothing(t *testing.T) {
	f := newFixture(t)
	key := f.put("a", withCap(1))
	f.acquire(t, ask(""))
	f.put("a", withCap(1), func(p *proxy) { p.Credentials = &credentials{Username: "u", Password: "p", Revision: "2"} })
	if got := f.refused(t, ask("")); got.AtCapacity != 1 || f.ledger.LiveOn(key) != 1 {
		t.Errorf("after the rotation: %+v", got)
	}
}

// TestWhoRestsIsTold: of which proxy, for what, and by whose word.
func TestWhoRestsIsTold(t *testing.T) {
	var told []Cooldown
	f := newFixture(t, func(o *Options) { o.OnCooldown = func(c Cooldown) { told = append(told, c) } })
	f.put("a")
	l := f.acquire(t, ask("a.example"))
	report := func(result Result, target string) {
		t.Helper()
		if err := f.ledger.Report(l.ID, l.Principal, result, target); err != nil {
			t.Fatal(err)
		}
	}
	report(ResultOK, "")
	report(ResultBanned, "")
	f.clock.Step(time.Second)
	report(ResultRateLimited, "b.example")
	wantErr(t, "an unknown lease", f.ledger.Report("x", l.Principal, ResultBanned, ""), ErrUnknownLease)
	want := []Cooldown{
		{name("a"), l.Principal, ResultBanned, "a.example", epoch.Add(DefaultCooldownWindow)},
		{name("a"), l.Principal, ResultRateLimited, "b.example", epoch.Add(DefaultCooldownWindow + time.Second)},
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %+v, want %+v", told, want)
	}
	f.fleet.Remove(name("a"), "uid-a")
	report(ResultBanned, "")
	if len(told) != len(want) {
		t.Errorf("told of a proxy that has left: %+v", told[len(want):])
	}
}
