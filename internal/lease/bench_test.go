package lease

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// The shapes of a fleet and a request over which the cost of an acquisition must not grow with the fleet.
type shape struct {
	name    string
	req     Request
	cap     int32
	prepare func(*testing.B, *fixture)
	refused bool
}

func shapes() []shape {
	request := func(target string, selector map[string]string) Request {
		return Request{Query: Query{Target: target, Selector: selector, Prefer: PreferLatency}, TTL: time.Hour, Principal: "crawler"}
	}
	return []shape{
		{name: "no-selector", req: request("", nil)},
		{name: "one-percent", req: request("", map[string]string{"percent": "1"})},
		{name: "empty-intersection", req: request("", map[string]string{"half": "0", "other": "1"}), refused: true},
		{name: "cooling-99", req: request("shop.example", nil), prepare: func(b *testing.B, f *fixture) {
			b.Helper()
			eachPercent(f, func(percent int, a *account, now time.Time) {
				if percent != 0 {
					f.ledger.cool(a, "shop.example", now.Add(time.Hour), now)
				}
			})
		}},
		{name: "half-full", req: request("", nil), cap: 1, prepare: func(b *testing.B, f *fixture) { b.Helper(); take(b, f, f.fleet.Len()/2) }},
		{name: "all-full", req: request("", nil), cap: 1, refused: true, prepare: func(b *testing.B, f *fixture) { b.Helper(); take(b, f, f.fleet.Len()) }},
	}
}

func eachPercent(f *fixture, do func(percent int, a *account, now time.Time)) {
	l := f.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	now, i := l.begin(), 0
	for _, s := range l.rankings.sorted() {
		do(i%100, l.account(s.key), now)
		i++
	}
}

func take(b *testing.B, f *fixture, n int) {
	b.Helper()
	for range n {
		f.acquire(b, Request{Query: Query{Prefer: PreferLatency}, TTL: 12 * time.Hour, Principal: "other"})
	}
}

// BenchmarkAcquire measures one acquisition and the release of what it got; a refusal counts as both.
func BenchmarkAcquire(b *testing.B) {
	for _, s := range shapes() {
		for _, n := range []int{1000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", s.name, n), func(b *testing.B) {
				f := bigFixture(b, n, s.cap)
				if s.prepare != nil {
					s.prepare(b, f)
				}
				ctx := context.Background()
				_, _ = f.ledger.Acquire(ctx, s.req)
				b.ReportAllocs()
				for b.Loop() {
					l, err := f.ledger.Acquire(ctx, s.req)
					if (err != nil) != s.refused {
						b.Fatal(err)
					}
					if err == nil {
						if err := f.ledger.Release(l.ID, l.Principal); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// bigFixture has n proxies in 100 classes of one percent each, with twenty attributes.
func bigFixture(b *testing.B, n int, limit int32) *fixture {
	b.Helper()
	f := newFixture(b, func(o *Options) { o.Clock = clock.RealClock{} })
	for i := range n {
		f.put(fmt.Sprintf("proxy-%06d", i), withCap(limit), func(p *fleet.Proxy) {
			p.Attributes = map[string]string{
				"percent": fmt.Sprint(i % 100), "half": fmt.Sprint(i % 2), "other": fmt.Sprint(i % 2),
			}
			for k := range 17 {
				p.Attributes[fmt.Sprintf("attribute-%02d", k)] = fmt.Sprint(i % (k + 2))
			}
		})
	}
	return f
}
