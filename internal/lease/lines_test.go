package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// crowd is a ledger with requests that wait, and nobody who listens to them.
type crowd struct {
	*fixture
	may    bool
	queued []*waiter
	held   []Lease
}

// settle takes in who was served, and checks that whoever still waits does so for good reason.
func (c *crowd) settle(t *rapid.T) {
	for c.ledger.sweep(); len(c.ledger.queue.free) > 0; {
		c.ledger.sweep()
	}
	kept := c.queued[:0]
	for _, w := range c.queued {
		select {
		case got := <-w.done:
			if got.err == nil {
				c.held = append(c.held, got.lease)
			} else if !errors.Is(got.err, errDisplaced) {
				t.Fatalf("a wait ended with %v", got.err)
			}
		default:
			kept = append(kept, w)
		}
	}
	c.queued = kept
	l := c.ledger
	if l.queue.count != len(kept) {
		t.Fatalf("%d wait, %d are counted", len(kept), l.queue.count)
	}
	for _, s := range l.seats {
		var longest *waiter
		for _, w := range kept {
			class := w.req.class()
			if !class.matches(s.proxy) || s.toward(w.req.Target, l.last).hindrance != hindranceNone {
				continue
			}
			if longest == nil || w.came < longest.came {
				longest = w
			}
		}
		if longest != nil && c.may {
			t.Fatalf("%+v waits although %s is free", longest.req, s.proxy.Key)
		}
		if got := l.queue.lines.firstFor(s, l.last); got != longest {
			t.Fatalf("%s would go to %+v, has waited longest: %+v", s.proxy.Key, got, longest)
		}
	}
}

// overtakes checks that nobody who waited before a lease was granted would have had a better right to it.
func (c *crowd) overtakes(t *rapid.T, lease Lease, waiting []*waiter) {
	s := c.ledger.known[lease.Key]
	for _, w := range waiting {
		if class := w.req.class(); w.at == nil || !class.matches(s.proxy) {
			continue
		}
		if until := s.account.coolsUntil(w.req.Target); !until.After(c.ledger.last) {
			t.Fatalf("%s went to a newcomer while %+v waits", lease.Proxy.Key, w.req)
		}
	}
}

func TestNobodyWaitsForAProxyThatIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crowd{may: true}
		c.fixture = newFixture(t, func(o *Options) {
			o.CooldownWindow, o.MaxWaiting, o.StartupHold = 40*time.Second, 12, 30*time.Second
			o.MayGrant = func() bool { return c.may }
		})
		proxies := rapid.SampledFrom([]string{"a", "b", "c"})
		country := rapid.SampledFrom([]string{"", "de", "fr"})
		size := rapid.SampledFrom([]string{"", "s", "m"})
		target := rapid.SampledFrom([]string{"", "x.example", "y.example"})
		attributes := func(t *rapid.T) map[string]string {
			out := map[string]string{}
			if v := country.Draw(t, "country"); v != "" {
				out["country"] = v
			}
			if v := size.Draw(t, "size"); v != "" {
				out["size"] = v
			}
			return out
		}
		c.ledger.queue.slice = rapid.SampledFrom([]int{1, slice}).Draw(t, "slice")
		n := 0
		put := func(t *rapid.T) {
			at, limit, n := int64(rapid.IntRange(1, 2).Draw(t, "attempt")), int32(rapid.IntRange(0, 2).Draw(t, "cap")), proxies.Draw(t, "proxy")
			have := attributes(t)
			c.put(n, withCap(limit), attempt(at), func(p *fleet.Proxy) { p.Attributes = have })
		}
		t.Repeat(map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				req := patient(target.Draw(t, "target"), time.Hour)
				req.Selector, req.Prefer = attributes(t), PreferLatency
				req.Principal = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "principal")
				if rapid.Bool().Draw(t, "keyed") {
					req.Key = fmt.Sprint(rapid.IntRange(n-1, n).Draw(t, "key"))
				}
				n++
				waiting := slices.Clone(c.queued)
				if lease, w, err := c.ledger.tryOrQueue(req); w != nil {
					c.queued = append(c.queued, w)
				} else if err == nil {
					c.held = append(c.held, lease)
					c.overtakes(t, lease, waiting)
				}
			},
			"give up": func(t *rapid.T) {
				if len(c.queued) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(c.queued)-1).Draw(t, "waiter")
				_ = c.ledger.giveUp(c.queued[i], context.Canceled)
				c.queued = append(c.queued[:i:i], c.queued[i+1:]...)
			},
			"release": func(t *rapid.T) {
				if len(c.held) == 0 {
					t.Skip()
				}
				l := rapid.SampledFrom(c.held).Draw(t, "lease")
				_ = c.ledger.Release(l.ID, l.Principal)
			},
			"report": func(t *rapid.T) {
				if len(c.held) == 0 {
					t.Skip()
				}
				l := rapid.SampledFrom(c.held).Draw(t, "lease")
				_ = c.ledger.Report(l.ID, l.Principal, ResultBanned, target.Draw(t, "target"))
			},
			"clear": func(t *rapid.T) {
				if p := c.fleet.Get(name(proxies.Draw(t, "proxy"))); p != nil {
					_ = c.ledger.ClearCooldowns(p.LeaseKey(), target.Draw(t, "target"))
				}
			},
			"withdraw": func(t *rapid.T) {
				if p := c.fleet.Get(name(proxies.Draw(t, "proxy"))); p != nil {
					c.ledger.Withdraw(p.LeaseKey())
				}
			},
			"readmit": func(t *rapid.T) {
				if p := c.fleet.Get(name(proxies.Draw(t, "proxy"))); p != nil {
					c.ledger.Readmit(p.LeaseKey())
				}
			},
			"verdict": func(t *rapid.T) {
				n := proxies.Draw(t, "proxy")
				if p := c.fleet.Get(name(n)); p != nil {
					health := rapid.SampledFrom([]fleet.Health{fleet.Healthy, fleet.Unhealthy}).Draw(t, "health")
					c.verdict(n, p.Subject(), health, time.Duration(rapid.IntRange(0, 9).Draw(t, "latency"))*time.Millisecond)
				}
			},
			"put": put,
			"remove": func(t *rapid.T) {
				n := proxies.Draw(t, "proxy")
				c.fleet.Remove(name(n), "uid-"+n)
			},
			"clock": func(t *rapid.T) { c.clock.Step(time.Duration(rapid.IntRange(0, 50).Draw(t, "s")) * time.Second) },
			"doubt": func(*rapid.T) { c.may = !c.may },
			"":      c.settle,
		})
	})
}

// Whoever has the most waiting gives way to those who have fewer, and to nobody else.
func TestNobodyKeepsOthersFromWaiting(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.MaxWaiting = 5 })
	f.put("a", withCap(1))
	f.acquire(t, ask(""))
	wait := func(principal string) *waiter {
		req := patient("", time.Hour)
		req.Principal = principal
		_, w, _ := f.ledger.tryOrQueue(req)
		return w
	}
	greedy := make([]*waiter, 5)
	for i := range greedy {
		greedy[i] = wait("greedy")
	}
	if wait("greedy") != nil {
		t.Error("a sixth place for the one who has them all")
	}
	for range 2 {
		if wait("one") == nil {
			t.Fatal("no place for others")
		}
	}
	for i, w := range greedy {
		select {
		case got := <-w.done:
			if i < 3 || !errors.Is(got.err, errDisplaced) {
				t.Errorf("request %d gave way with %v", i, got.err)
			}
			if _, err := f.ledger.lastTry(w); err == nil {
				t.Error("it got a lease that is not to be had")
			}
		default:
			if i >= 3 {
				t.Errorf("request %d, which came late, kept its place", i)
			}
		}
	}
	if wait("one") != nil || wait("greedy") != nil {
		t.Error("a third place of five while the other has three")
	}
	if wait("two") == nil {
		t.Error("no place for a third principal")
	}
}
