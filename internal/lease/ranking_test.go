package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// scan picks as naively as possible: it looks at every proxy of the fleet.
func scan(f *fixture, q Query) (best *fleet.Proxy, refused NoMatchError) {
	l, now := f.ledger, f.clock.Now()
	var first *seat
	for _, p := range f.fleet.Select("", nil) {
		if (len(q.Namespaces) > 0 && !slices.Contains(q.Namespaces, p.Key.Namespace)) || !p.Matches(q.Selector) {
			continue
		}
		refused.Considered++
		a := l.accounts[p.LeaseKey()]
		s := &seat{proxy: p, standing: a.standing(p.Cap, q.Target, now)}
		if p.Withheld() != fleet.WithheldNot {
			s.hindrance, s.freeAt = hindranceUnoffered, time.Time{}
		}
		switch s.hindrance {
		case hindranceNone:
			if first == nil || q.Prefer.before(s, first) {
				first = s
			}
			continue
		case hindranceFull:
			refused.AtCapacity++
		case hindranceCooling:
			refused.InCooldown++
		case hindranceUnoffered:
			refused.Unhealthy++
		}
		if !s.freeAt.IsZero() && (refused.FreeAt.IsZero() || s.freeAt.Before(refused.FreeAt)) {
			refused.FreeAt = s.freeAt
		}
	}
	if first != nil {
		best = first.proxy
	}
	return best, refused
}

// A pick from the rankings is what a look at every proxy yields, whatever happened before: the order, the counts of a
// refusal and the time it names.
func TestRankingsPickWhatALookAtEveryProxyWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFixture(t)
		rs := f.ledger.rankings
		rs.log, rs.floor = make([]int32, rapid.SampledFrom([]int{1, 64, logLength}).Draw(t, "log")), rapid.SampledFrom([]int{0, maxMembers}).Draw(t, "floor")
		if rapid.Bool().Draw(t, "poor") {
			rs.free, rs.saves = 0, rapid.IntRange(0, 10).Draw(t, "saves")
		}
		names := make([]string, 40)
		for i := range names {
			names[i] = fmt.Sprintf("p%02d", i)
			if i < 25 {
				f.put(names[i], withCap(int32(i%3)))
			}
		}
		anyName := rapid.SampledFrom(names)
		targets := rapid.SampledFrom([]string{"", "x.example", "y.example"})
		countries := rapid.SampledFrom([]string{"de", "fr"})
		put := func(t *rapid.T) {
			n := anyName.Draw(t, "name")
			f.put(n, withCap(int32(rapid.IntRange(0, 2).Draw(t, "cap"))), func(p *fleet.Proxy) {
				p.Attributes = map[string]string{"country": countries.Draw(t, "country"), "tier": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tier")}
				p.Attempt = int64(rapid.IntRange(1, 2).Draw(t, "attempt"))
				p.Cordoned = rapid.IntRange(0, 9).Draw(t, "cordoned") == 0
			})
		}
		var held []Lease
		aLease := func(t *rapid.T) (Lease, bool) {
			if len(held) == 0 {
				return Lease{}, false
			}
			return rapid.SampledFrom(held).Draw(t, "lease"), true
		}
		acquire := func(t *rapid.T) {
			q := Query{
				Namespaces: rapid.SampledFrom([][]string{nil, {"ns"}, {"other"}, {"other", "ns"}}).Draw(t, "namespaces"), Target: targets.Draw(t, "target"),
				Prefer: rapid.SampledFrom([]Prefer{PreferLatency, PreferRotation}).Draw(t, "prefer"),
			}
			if rapid.Bool().Draw(t, "select") {
				q.Selector = map[string]string{"country": countries.Draw(t, "country")}
			}
			f.ledger.Live()
			want, refusal := scan(f, q)
			l, err := f.ledger.Acquire(context.Background(), Request{Query: q, Principal: "crawler", TTL: time.Duration(rapid.IntRange(1, 90).Draw(t, "ttl")) * time.Second})
			var refused *NoMatchError
			switch {
			case err == nil && want == nil:
				t.Fatalf("%+v: leased %s, want a refusal", q, l.Proxy.Key)
			case err == nil && l.Proxy != want:
				t.Fatalf("%+v: leased %s, want %s", q, l.Proxy.Key, want.Key)
			case err == nil:
				held = append(held, l)
			case !errors.As(err, &refused) || want != nil || *refused != refusal:
				t.Fatalf("%+v: %v (%+v), want %v or %+v", q, err, refused, want, refusal)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": acquire, "acquire 2": acquire, "acquire 3": acquire,
			"put": put, "put 2": put,
			"verdict": func(t *rapid.T) {
				if n := anyName.Draw(t, "name"); f.fleet.Get(name(n)) != nil {
					if rapid.IntRange(0, 3).Draw(t, "ill") == 0 {
						f.unhealthy(n)
					} else {
						f.latency(n, time.Duration(rapid.IntRange(0, 5).Draw(t, "latency"))*time.Millisecond)
					}
				}
			},
			"remove": func(t *rapid.T) { n := anyName.Draw(t, "name"); f.fleet.Remove(name(n), "uid-"+n) },
			"release": func(t *rapid.T) {
				if l, ok := aLease(t); ok {
					wantErr(t, "Release", f.ledger.Release(l.ID, l.Principal), nil)
				}
			},
			"renew": func(t *rapid.T) {
				if l, ok := aLease(t); ok {
					_, _ = f.ledger.Renew(l.ID, l.Principal, time.Duration(rapid.IntRange(1, 90).Draw(t, "ttl"))*time.Second)
				}
			},
			"ban": func(t *rapid.T) {
				if l, ok := aLease(t); ok {
					_ = f.ledger.Report(l.ID, l.Principal, ResultBanned, targets.Draw(t, "target"))
				}
			},
			"ban all": func(t *rapid.T) { // so many that the target gets a ranking of its own
				f.ledger.mu.Lock()
				defer f.ledger.mu.Unlock()
				now := f.ledger.begin()
				until := now.Add(time.Duration(rapid.IntRange(1, 600).Draw(t, "seconds")) * time.Second)
				target := targets.Draw(t, "target")
				for _, s := range maps.Clone(f.ledger.seats) {
					f.ledger.cool(f.ledger.account(s.key), target, until, now)
				}
			},
			"clear": func(t *rapid.T) {
				if p := f.fleet.Get(name(anyName.Draw(t, "name"))); p != nil {
					wantErr(t, "ClearCooldowns", f.ledger.ClearCooldowns(p.LeaseKey(), targets.Draw(t, "target")), nil)
				}
			},
			"withdraw": func(t *rapid.T) {
				if p := f.fleet.Get(name(anyName.Draw(t, "name"))); p != nil {
					f.ledger.Withdraw(p.LeaseKey())
				}
			},
			"readmit": func(t *rapid.T) {
				if p := f.fleet.Get(name(anyName.Draw(t, "name"))); p != nil {
					f.ledger.Readmit(p.LeaseKey())
				}
			},
			"time":     func(t *rapid.T) { f.clock.Step(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second) },
			"renumber": func(*rapid.T) { f.ledger.Live(); rs.renumber() },
			"":         func(t *rapid.T) { consistent(t, f.ledger) },
		})
	})
}

// consistent checks what ties the ledger's maps together.
func consistent(t *rapid.T, l *Ledger) {
	members := 0
	for _, k := range l.rankings.byClass {
		members += k.size
	}
	if members != l.rankings.members {
		t.Fatalf("%d members are counted, there are %d", l.rankings.members, members)
	}
	if len(l.seats) != len(l.known) || len(l.seats) != len(l.rankings.seats) {
		t.Fatalf("%d seats, %d known, %d numbered", len(l.seats), len(l.known), len(l.rankings.seats))
	}
	for _, s := range l.seats {
		if l.known[s.key] != s || l.rankings.seats[s.number] != s || l.accounts[s.key] != s.account || (s.account != nil && s.account.seat != s) {
			t.Fatalf("seat %d of %s is not tied in", s.number, s.proxy.Key)
		}
	}
	cold := 0
	for target, accounts := range l.targets {
		for a := range accounts {
			cold++
			if a.cooling[target] == nil {
				t.Fatalf("%v does not cool for %q", a.key, target)
			}
		}
	}
	for _, c := range l.cooling.entries {
		if c.item.target == "" {
			cold++
		}
	}
	if cold != l.cooling.Len() {
		t.Fatalf("%d cooldowns by target, %d in all", cold, l.cooling.Len())
	}
}

// Classes that come once and match much of a large fleet are served from the ranking of all.
func TestClassesThatComeAndGoAreNotRanked(t *testing.T) {
	f := newFixture(t)
	const proxies, asked = 3 * freeEffort, 100
	for i := range proxies {
		f.put(fmt.Sprintf("p%05d", i), func(p *fleet.Proxy) {
			p.Attributes = map[string]string{}
			for k := range asked {
				p.Attributes[fmt.Sprint(k)] = fmt.Sprint((i >> (k % 6)) & 1)
			}
		})
	}
	for k := range asked {
		req := ask("")
		req.Selector = map[string]string{fmt.Sprint(k): "1"}
		if l := f.acquire(t, req); l.Proxy.Attributes[fmt.Sprint(k)] != "1" {
			t.Fatalf("request %d got a proxy that does not match", k)
		}
	}
	if n, most := len(f.ledger.rankings.byClass), 1+asked*effortSaved/proxies; n > most {
		t.Errorf("%d rankings, want at most %d", n, most)
	}
}
