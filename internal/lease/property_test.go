package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// oracle repeats, as naively as possible, what the ledger must know. It judges single grants and refusals.
type oracle struct {
	now       time.Time
	held      map[string]Lease
	cools     map[fleet.LeaseKey]map[string]time.Time
	withdrawn map[fleet.LeaseKey]bool
}

func (o *oracle) live(key fleet.LeaseKey) (n int) {
	for _, l := range o.held {
		if l.Key == key && o.now.Before(l.ExpiresAt) {
			n++
		}
	}
	return n
}

func (o *oracle) leasable(p *fleet.Proxy, target string) bool {
	key := p.LeaseKey()
	cools := o.cools[key]
	return p.Withheld() == fleet.WithheldNot && !o.withdrawn[key] &&
		(p.Cap == 0 || o.live(key) < int(p.Cap)) &&
		!o.now.Before(cools[""]) && !o.now.Before(cools[target])
}

func TestGrantsKeepCapsAndCooldowns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFixture(t)
		o := &oracle{now: epoch, held: map[string]Lease{}, cools: map[fleet.LeaseKey]map[string]time.Time{}, withdrawn: map[fleet.LeaseKey]bool{}}
		proxies := []string{"a", "b", "c"}
		for i, n := range proxies {
			f.put(n, withCap(int32(i)))
		}
		var ids []string
		proxyName := rapid.SampledFrom(proxies)
		target := rapid.SampledFrom([]string{"", "x.example", "y.example"})
		someID := func(t *rapid.T) (Lease, bool) {
			if len(ids) == 0 {
				return Lease{}, false
			}
			l, ok := o.held[rapid.SampledFrom(ids).Draw(t, "lease")]
			return l, ok
		}
		t.Repeat(map[string]func(*rapid.T){
			"acquire": func(t *rapid.T) {
				req := ask(target.Draw(t, "target"))
				req.TTL = time.Duration(rapid.IntRange(1, 300).Draw(t, "ttl")) * time.Second
				l, err := f.ledger.Acquire(context.Background(), req)
				var candidates []*fleet.Proxy
				for _, p := range f.fleet.List("", nil) {
					if o.leasable(p, req.Target) {
						candidates = append(candidates, p)
					}
				}
				if refused := (*NoMatchError)(nil); errors.As(err, &refused) {
					if len(candidates) > 0 || refused.Considered != f.fleet.Len() ||
						refused.Considered != refused.AtCapacity+refused.InCooldown+refused.Unhealthy {
						t.Fatalf("refused with %+v although %d could be leased", *refused, len(candidates))
					}
					return
				}
				if err != nil || !o.leasable(f.fleet.Get(l.Proxy.Key), req.Target) {
					t.Fatalf("granted %v, %v, which cannot be leased for %q", l.Key, err, req.Target)
				}
				for _, p := range candidates {
					if o.live(p.LeaseKey()) < o.live(l.Key) {
						t.Fatalf("granted %v although %v holds fewer leases", l.Key, p.Key)
					}
				}
				o.held[l.ID], ids = l, append(ids, l.ID)
			},
			"renew": func(t *rapid.T) {
				l, ok := someID(t)
				if !ok {
					t.Skip()
				}
				ttl := time.Duration(rapid.IntRange(1, 90_000).Draw(t, "ttl")) * time.Second
				if renewed, err := f.ledger.Renew(l.ID, l.Principal, ttl); err == nil {
					if !o.now.Before(l.ExpiresAt) || renewed.ExpiresAt.After(l.Start.Add(DefaultMaxLifetime)) {
						t.Fatalf("renewed %+v to %v at %v", l, renewed.ExpiresAt, o.now)
					}
					o.held[l.ID] = renewed
				}
			},
			"release": func(t *rapid.T) {
				if l, ok := someID(t); ok {
					_ = f.ledger.Release(l.ID, l.Principal)
					l.ExpiresAt = o.now
					o.held[l.ID] = l
				}
			},
			"report": func(t *rapid.T) {
				l, ok := someID(t)
				if !ok {
					t.Skip()
				}
				to := target.Draw(t, "target")
				if f.ledger.Report(l.ID, l.Principal, ResultBanned, to) == nil {
					if to == "" {
						to = l.Target
					}
					if o.cools[l.Key] == nil {
						o.cools[l.Key] = map[string]time.Time{}
					}
					o.cools[l.Key][to] = o.now.Add(DefaultCooldownWindow)
				}
			},
			"withdraw": func(t *rapid.T) {
				key := f.fleet.Get(name(proxyName.Draw(t, "proxy"))).LeaseKey()
				if got := f.ledger.Withdraw(key); got != o.live(key) {
					t.Fatalf("Withdraw = %d, want %d", got, o.live(key))
				}
				o.withdrawn[key] = true
			},
			"readmit": func(t *rapid.T) {
				key := f.fleet.Get(name(proxyName.Draw(t, "proxy"))).LeaseKey()
				f.ledger.Readmit(key)
				delete(o.withdrawn, key)
			},
			"verdict": func(t *rapid.T) {
				n := proxyName.Draw(t, "proxy")
				health := rapid.SampledFrom([]fleet.Health{fleet.Healthy, fleet.Unhealthy, fleet.HealthUnknown}).Draw(t, "health")
				f.verdict(n, f.fleet.Get(name(n)).Subject(), health, time.Duration(rapid.IntRange(0, 99).Draw(t, "latency"))*time.Millisecond)
			},
			"replace": func(t *rapid.T) {
				n := proxyName.Draw(t, "proxy")
				old := f.fleet.Get(name(n))
				f.put(n, attempt(old.Attempt+1), withCap(int32(rapid.IntRange(0, 3).Draw(t, "cap"))))
				delete(o.cools, old.LeaseKey())
				delete(o.withdrawn, old.LeaseKey())
			},
			"clock": func(t *rapid.T) {
				f.clock.Step(time.Duration(rapid.IntRange(-5_000, 400_000).Draw(t, "ms")) * time.Millisecond)
				if now := f.clock.Now(); now.After(o.now) {
					o.now = now
				}
				// The ledger learns of the time when it is asked.
				f.ledger.Live()
			},
			"": func(t *rapid.T) {
				for _, p := range f.fleet.List("", nil) {
					if got, want := f.ledger.LiveOn(p.LeaseKey()), o.live(p.LeaseKey()); got != want {
						t.Fatalf("%d live on %v, want %d", got, p.Key, want)
					}
				}
			},
		})
	})
}

func TestQueueKeepsOrderUnderAnyMoves(t *testing.T) {
	type item struct {
		at    time.Time
		place int
	}
	rapid.Check(t, func(t *rapid.T) {
		q := queue[*item]{at: func(i *item) time.Time { return i.at }, place: func(i *item) *int { return &i.place }}
		in := map[*item]bool{}
		var order []*item
		moment := rapid.Map(rapid.IntRange(0, 50), func(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) })
		for n := range rapid.IntRange(1, 60).Draw(t, "operations") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op < 2 || len(order) == 0:
				i := &item{at: moment.Draw(t, "at")}
				q.push(i)
				in[i], order = true, append(order, i)
			case op == 2:
				if i := rapid.SampledFrom(order).Draw(t, fmt.Sprint("moved", n)); in[i] {
					i.at = moment.Draw(t, "to")
					q.moved(i)
				}
			default:
				if i := rapid.SampledFrom(order).Draw(t, fmt.Sprint("removed", n)); in[i] {
					q.remove(i)
					delete(in, i)
				}
			}
		}
		last := time.Time{}
		for i, ok := q.due(epoch.Add(time.Hour)); ok; i, ok = q.due(epoch.Add(time.Hour)) {
			if !in[i] || i.at.Before(last) {
				t.Fatalf("%v came after %v (known %v)", i.at, last, in[i])
			}
			last = i.at
			delete(in, i)
		}
		if len(in) != 0 {
			t.Fatalf("%d items never came", len(in))
		}
	})
}
