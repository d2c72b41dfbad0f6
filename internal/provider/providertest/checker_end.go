package providertest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// many checks run into their time one after the other; piled is how many goroutines each target may keep of that: a
	// connection may bound what is asked of it and not answered, but not to nothing.
	many  = 150
	piled = 80
)

// checkEndRules are about what is left of a check.
func checkEndRules() []CheckRule {
	return []CheckRule{
		{"check-leaves-no-goroutines", "Of many checks side by side, and a provider that is closed after them, no goroutine is left.", func(s *checkSuite) {
			before := goleak.IgnoreCurrent()
			c := s.checker()
			restore := func() {}
			if s.with.Hang != nil {
				restore = s.hangAll()
			}
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(s.ctx, time.Duration(i%4)*short/4)
					defer cancel()
					if a := s.ask(ctx, c, s.env.Limit); a.late {
						s.Errorf("a check has not come back after %s", a.took)
					}
				})
			}
			wg.Wait()
			restore()
			s.check(c)
			shut(c)
			s.settled(func() error { return goleak.Find(before) })
		}},
		{"check-does-not-pile-up", "Checks of a target that hangs for long do not keep more and more goroutines.", func(s *checkSuite) {
			s.need(s.with.Hang != nil, "Hang")
			c := s.checker()
			s.Cleanup(s.hangAll())
			before := runtime.NumGoroutine()
			for range many {
				ctx, cancel := context.WithTimeout(s.ctx, short/20)
				a := s.ask(ctx, c, s.env.Limit)
				cancel()
				if a.late {
					s.Fatalf("a check has not come back after %s", a.took)
				}
			}
			s.settled(func() error {
				if now := runtime.NumGoroutine(); now > before+piled*len(s.with.Targets) {
					return fmt.Errorf("%d goroutines have become %d", before, now)
				}
				return nil
			})
		}},
		{"check-survives-close", "A check after Close, and one that Close comes across, returns soon, without a panic and with every target.", func(s *checkSuite) {
			c := s.checker()
			s.check(c)
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() { s.expectBack("beside Close", c) })
			}
			shut(c)
			wg.Wait()
			s.expectBack("after Close", c)
			s.expectBack("after Close of a provider that was never used", func() provider.Checker {
				fresh := s.checker()
				shut(fresh)
				return fresh
			}())
		}},
	}
}

// settled waits until f finds nothing wrong, for as long as a call may take.
func (s *checkSuite) settled(f func() error) {
	s.Helper()
	var err error
	for began := time.Now(); time.Since(began) < s.env.Limit; {
		if err = f(); err == nil {
			return
		}
		pause := time.NewTimer(10 * time.Millisecond)
		select {
		case <-pause.C:
		case <-s.ctx.Done():
		}
		pause.Stop()
	}
	s.Errorf("%v", err)
}

func (s *checkSuite) expectBack(when string, c provider.Checker) {
	s.Helper()
	if a := s.ask(s.ctx, c, s.env.Limit); a.late || len(a.statuses) != len(s.with.Targets) {
		s.Errorf("%s: after %s %d targets, want %d", when, a.took, len(a.statuses), len(s.with.Targets))
	}
}
