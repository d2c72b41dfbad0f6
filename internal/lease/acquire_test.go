package lease

import (
	"context"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func TestOrderOfPicks(t *testing.T) {
	cases := map[string]struct {
		reason string
		prefer Prefer
		setup  func(*fixture)
		want   []string
	}{
		"Latency": {
			reason: "among equally loaded proxies the fastest comes first, then the next fastest because it holds fewer",
			setup: func(f *fixture) {
				f.put("a")
				f.put("b")
				f.latency("a", 30*time.Millisecond)
				f.latency("b", 20*time.Millisecond)
			},
			want: []string{"b", "a", "b", "a"},
		},
		"Name": {
			reason: "equal latencies fall back to the name",
			setup:  func(f *fixture) { f.put("b"); f.put("a"); f.put("c") },
			want:   []string{"a", "b", "c", "a"},
		},
		"UnknownLatencyLast": {
			reason: "no latency is not the best latency",
			setup: func(f *fixture) {
				f.put("a")
				f.put("b")
				f.latency("a", 0)
			},
			want: []string{"b", "a"},
		},
		"Rotation": {
			reason: "rotation does not look at latency",
			prefer: PreferRotation,
			setup: func(f *fixture) {
				f.put("a")
				f.put("b")
				f.latency("b", time.Millisecond)
			},
			want: []string{"a", "b", "a"},
		},
		"Cap": {
			reason: "a full proxy is passed over",
			setup:  func(f *fixture) { f.put("a", withCap(1)); f.put("b") },
			want:   []string{"a", "b", "b"},
		},
	}
	for n, tc := range cases {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			tc.setup(f)
			for i, want := range tc.want {
				req := ask("")
				req.Prefer = tc.prefer
				if got := f.acquire(t, req).Proxy.Key.Name; got != want {
					t.Fatalf("%s: pick %d is %s, want %s", tc.reason, i, got, want)
				}
			}
		})
	}
}

func TestRotationTakesTheLeastRecentlyLeased(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	f.put("b")
	f.put("c")
	for i, want := range []string{"a", "b", "c", "a", "b"} {
		req := ask("")
		req.Prefer = PreferRotation
		l := f.acquire(t, req)
		if l.Proxy.Key.Name != want {
			t.Fatalf("pick %d is %s, want %s", i, l.Proxy.Key.Name, want)
		}
		wantErr(t, "Release", f.ledger.Release(l.ID, l.Principal), nil)
	}
}

func TestRotationComesAfterTheNumberOfLeases(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	f.put("b")
	req := ask("")
	req.Prefer = PreferRotation
	f.acquire(t, req)
	second := f.acquire(t, req)
	wantErr(t, "Release", f.ledger.Release(second.ID, second.Principal), nil)
	if got := f.acquire(t, req).Proxy.Key.Name; got != "b" {
		t.Errorf("leased %s, want b: it was leased last, but holds nothing", got)
	}
}

func TestSelectorAndNamespaceRestrict(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	f.put("b", func(p *fleet.Proxy) { p.Attributes = map[string]string{"country": "fr"} })
	req := ask("")
	req.Selector = map[string]string{"country": "fr"}
	if got := f.acquire(t, req).Proxy.Key.Name; got != "b" {
		t.Errorf("leased %s, want b", got)
	}
	req.Namespaces = []string{"elsewhere"}
	if got := f.refused(t, req); got != (NoMatchError{}) {
		t.Errorf("in another namespace: %+v, want nothing considered", got)
	}
}

func TestOnlyOfferedProxiesAreLeased(t *testing.T) {
	cases := map[string]struct {
		reason string
		setup  func(*fixture)
	}{
		"Unhealthy": {"its last verdict is bad", func(f *fixture) { f.put("a"); f.unhealthy("a") }},
		"Cordoned":  {"its owner offers it to nobody new", func(f *fixture) { f.put("a", cordoned) }},
		"Draining":  {"it is about to be replaced", func(f *fixture) { f.put("a", draining) }},
		"Unprobed": {"the verdict is about the instance before", func(f *fixture) {
			f.put("a")
			f.fleet.Apply(&fleet.Proxy{Key: name("a"), UID: "uid-a", Attempt: 2, Provisioned: true, Endpoint: fleet.Endpoint{Host: "x", Port: 1}})
		}},
		"Withdrawn": {"the reconciler withdrew it before any informer said so", func(f *fixture) { f.ledger.Withdraw(f.put("a")) }},
	}
	for n, tc := range cases {
		t.Run(n, func(t *testing.T) {
			f := newFixture(t)
			tc.setup(f)
			if got, want := f.refused(t, ask("")), (NoMatchError{Considered: 1, Unhealthy: 1}); got != want {
				t.Errorf("%s: %+v, want %+v", tc.reason, got, want)
			}
		})
	}
}

func TestRefusalCountsAddUpAndNameTheEarliestTime(t *testing.T) {
	f := newFixture(t)
	f.put("full", withCap(1))
	f.put("cooling", withCap(1))
	f.put("sick")
	f.latency("full", time.Millisecond)
	first := f.acquire(t, ask("shop.example"))
	f.clock.Step(10 * time.Second)
	second := f.acquire(t, Request{Query: Query{Target: "shop.example", Selector: map[string]string{"country": "de"}}, TTL: time.Second, Principal: "crawler"})
	f.unhealthy("sick")
	if first.Proxy.Key.Name != "full" || second.Proxy.Key.Name != "cooling" {
		t.Fatalf("leased %s and %s", first.Proxy.Key, second.Proxy.Key)
	}
	f.report(t, second, "")
	want := NoMatchError{Considered: 3, AtCapacity: 1, InCooldown: 1, Unhealthy: 1, FreeAt: first.ExpiresAt}
	if got := f.refused(t, ask("shop.example")); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f.clock.SetTime(first.ExpiresAt.Add(-time.Nanosecond))
	f.refused(t, ask("shop.example"))
	f.clock.SetTime(first.ExpiresAt)
	if got := f.acquire(t, ask("shop.example")).Proxy.Key.Name; got != "full" {
		t.Errorf("at FreeAt %s was leased, want full", got)
	}
}

func TestBoundsOfAcquire(t *testing.T) {
	leading := true
	f := newFixture(t, func(o *Options) { o.MaxLive, o.MaxLifetime, o.MayGrant = 1, time.Hour, func() bool { return leading } })
	f.put("a")
	long := ask("")
	long.TTL = 1 << 62
	l := f.acquire(t, long)
	if want := epoch.Add(time.Hour); !l.ExpiresAt.Equal(want) || l.TTL != time.Hour {
		t.Errorf("a lease longer than any lease may live expires at %v (ttl %v), want %v", l.ExpiresAt, l.TTL, want)
	}
	_, err := f.ledger.Acquire(context.Background(), ask(""))
	wantErr(t, "beyond MaxLive", err, ErrOverloaded)
	none := ask("")
	none.TTL = 0
	_, err = f.ledger.Acquire(context.Background(), none)
	wantErr(t, "without ttl", err, ErrTTL)
	leading = false
	_, err = f.ledger.Acquire(context.Background(), ask(""))
	wantErr(t, "not leading", err, ErrMayNotGrant)
	_, err = f.ledger.Renew(l.ID, l.Principal, time.Minute)
	wantErr(t, "renewing while not leading", err, ErrMayNotGrant)
	wantErr(t, "releasing while not leading", f.ledger.Release(l.ID, l.Principal), ErrMayNotGrant)
	wantErr(t, "reporting while not leading", f.ledger.Report(l.ID, l.Principal, ResultBanned, ""), ErrMayNotGrant)
	if got := f.ledger.Live(); got != 1 {
		t.Errorf("%d live leases, want 1: nothing is committed while not leading", got)
	}
}

func TestTheRightToGrantIsAskedForAgainAfterThePick(t *testing.T) {
	asked := 0
	f := newFixture(t, func(o *Options) { o.MayGrant = func() bool { asked++; return asked == 1 } })
	f.put("a")
	_, err := f.ledger.Acquire(context.Background(), ask(""))
	wantErr(t, "lost during the pick", err, ErrMayNotGrant)
	if got := f.ledger.Live(); got != 0 {
		t.Errorf("%d live leases, want 0", got)
	}
}

func TestTheFleetIsAskedAgainAtTheGrant(t *testing.T) {
	for reason, change := range map[string]func(*fixture){
		"unhealthy since the pick": func(f *fixture) { f.unhealthy("a") },
		"replaced since the pick":  func(f *fixture) { f.put("a", attempt(2)) },
		"deleted since the pick":   func(f *fixture) { f.fleet.Remove(name("a"), "uid-a") },
	} {
		f := newFixture(t)
		f.put("a")
		f.ledger.Live()
		picked := f.ledger.seats[name("a")]
		change(f)
		f.ledger.mu.Lock()
		_, ok, err := f.ledger.tryAcquire(picked, ask(""), epoch)
		f.ledger.mu.Unlock()
		if ok || err != nil {
			t.Errorf("%s: granted %v, %v", reason, ok, err)
		}
	}
}

// The fleet takes up one key after the operation has looked at it, and leaves it again before the next one looks.
func TestAKeySeenOnlyByAGrantIsFollowedToo(t *testing.T) {
	var during func()
	f := newFixture(t, func(o *Options) {
		o.MayGrant = func() bool {
			if during != nil {
				during()
				during = nil
			}
			return true
		}
	})
	f.put("a")
	f.ledger.Live()
	during = func() { f.put("a", attempt(2)) }
	if got := f.acquire(t, ask("")).Key.Attempt; got != 2 {
		t.Fatalf("leased attempt %d, want 2", got)
	}
	f.put("a", attempt(3))
	if got := f.ledger.Live(); got != 0 || len(f.ledger.accounts) != 0 {
		t.Errorf("%d live and %d accounts of an instance that is gone", got, len(f.ledger.accounts))
	}
}

func TestIDsAndEpochs(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	seen := map[string]bool{f.ledger.Epoch(): true, newFixture(t).ledger.Epoch(): true}
	for range 1000 {
		id := f.acquire(t, ask("")).ID
		// 26 characters of base32 carry 130 bits.
		if len(id) < 26 {
			t.Fatalf("ID %q is too short to be unguessable", id)
		}
		seen[id] = true
	}
	if len(seen) != 1002 {
		t.Errorf("%d distinct IDs and epochs, want 1002", len(seen))
	}
}

func TestOptionsAreChecked(t *testing.T) {
	good := Options{Fleet: fleet.NewStore(), Clock: newFixture(t).clock}
	for n, change := range map[string]func(*Options){
		"no fleet": func(o *Options) { o.Fleet = nil },
		"no clock": func(o *Options) { o.Clock = nil },
		"window":   func(o *Options) { o.CooldownWindow = -1 },
		"lifetime": func(o *Options) { o.MaxLifetime = -1 },
		"live":     func(o *Options) { o.MaxLive = -1 },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", n)
		}
	}
}
