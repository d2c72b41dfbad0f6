package instrument_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// answered is how a call or a check of a target ends.
type answered int

const (
	answersWell answered = iota
	answersBadly
	answersDenied
	answersNot
)

// modelTarget is what the guard promises about a target, as a story of what happened to it.
type modelTarget struct {
	inFlight, failures int
	trusted, isShut    bool
	how                answered
	heard              int // when the newest call that was answered began
	shutAt, openedAt   int
	wait               time.Duration
	until, opened      time.Time
	everOpened         bool
}

func (m *modelTarget) end(began, now int, at time.Time, how answered) (opened bool) {
	if how == answersWell || how == answersBadly {
		if m.isShut && began < m.shutAt {
			return false
		}
		m.trusted, m.heard = true, max(m.heard, began)
		return m.open(now, at)
	}
	if began >= m.openedAt {
		m.trusted = false
		if !m.isShut || began > m.shutAt {
			m.shut(now, at, how)
		}
	}
	return false
}

func (m *modelTarget) open(now int, at time.Time) bool {
	if !m.isShut {
		return false
	}
	m.isShut, m.openedAt, m.opened, m.everOpened = false, now, at, true
	return true
}

func (m *modelTarget) shut(now int, at time.Time, how answered) {
	inARow := m.how == how && (m.isShut || m.everOpened && at.Before(m.opened.Add(m.wait)))
	if !inARow {
		m.failures = 0
	}
	first, limit := 10*time.Second, 5*time.Minute
	if how == answersDenied {
		first, limit = time.Minute, 15*time.Minute
	}
	m.wait = first
	for range m.failures {
		m.wait = min(2*m.wait, limit)
	}
	m.failures++
	m.isShut, m.how, m.shutAt, m.until = true, how, now, at.Add(m.wait)
}

// expect returns how a call that comes now must be refused; ok when it must be let through.
func (m *modelTarget) expect(at time.Time) (how answered, busy, ok bool, wait time.Duration) {
	switch {
	case m.isShut && at.Before(m.until):
		return m.how, false, false, m.until.Sub(at)
	case m.isShut && m.inFlight > 0:
		return m.how, false, false, min(m.wait, time.Minute)
	case m.isShut:
		return 0, false, true, 0
	case m.inFlight >= 4, !m.trusted && m.inFlight >= 1:
		return 0, true, false, 0
	}
	return 0, false, true, 0
}

// handed is a provider whose calls end when and as they are told to.
type handed struct {
	*plain
	outcome chan chan answered
}

func (handed) Target(ref provider.Ref) string { zone, _, _ := strings.Cut(ref.ID, "/"); return zone }

func (h handed) Get(context.Context, provider.Ref) (*provider.Instance, error) { return nil, h.call() }

func (h handed) ListByTag(context.Context) (provider.Listing, error) {
	return provider.Listing{}, h.call()
}

func (h handed) call() error {
	mine := make(chan answered)
	h.outcome <- mine
	switch <-mine {
	case answersBadly:
		return provider.Wrap(provider.ErrPermanent, "get", "exits", "", errors.New("no"))
	case answersDenied:
		return provider.Wrap(provider.ErrDenied, "get", "exits", "", errors.New("401"))
	case answersNot:
		return provider.Wrap(provider.ErrTransient, "get", "exits", "", errors.New("no route")).WithReason(provider.ReasonUnreachable)
	case answersWell:
	}
	return nil
}

// flying is a call in flight.
type flying struct {
	target string
	began  int
	end    chan answered
	done   chan error
}

// TestTheGateIsAsItsModel lets calls to two targets, lists and checks begin and end in any order, with time passing.
func TestTheGateIsAsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
		h := handed{plain: newPlain(nil), outcome: make(chan chan answered)}
		var told []string
		p := instrument.WithGuard(h, "exits", clk, instrument.OnOpen(func(_, target string) { told = append(told, target) }))
		model := map[string]*modelTarget{"a": {}, "b": {}, "": {}} // "" is the list
		var flights []flying
		var checks []func(target string, s provider.TargetStatus)
		now := 0
		defer func() {
			for _, f := range flights {
				f.end <- answersWell
				<-f.done
			}
		}()
		expectTold := func(want []string) {
			slices.Sort(told)
			slices.Sort(want)
			if !slices.Equal(told, want) {
				t.Fatalf("told of openings %q, want %q", told, want)
			}
			told = nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				target := rapid.SampledFrom([]string{"a", "a", "a", "b", ""}).Draw(t, "target")
				done := make(chan error, 1)
				go func() {
					var err error
					if target == "" {
						_, err = p.ListByTag(context.Background())
					} else {
						_, err = p.Get(context.Background(), ref(target+"/x"))
					}
					done <- err
				}()
				m := model[target]
				how, busy, ok, wait := m.expect(clk.Now())
				if lists := model[""]; target != "" && lists.isShut && lists.how == answersDenied {
					how, busy, ok = answersDenied, false, false
					if wait = lists.until.Sub(clk.Now()); wait <= 0 {
						wait = min(lists.wait, time.Minute)
					}
				}
				select {
				case end := <-h.outcome:
					if !ok {
						t.Fatalf("a call to %q was let through", target)
					}
					now++
					m.inFlight++
					flights = append(flights, flying{target, now, end, done})
				case err := <-done:
					class := map[bool]error{true: provider.ErrDenied, false: provider.ErrTransient}[!busy && how == answersDenied]
					if ok || provider.Class(err) != class || (provider.Reason(err) == provider.ReasonBusy) != busy || provider.RetryAfter(err) != wait {
						t.Fatalf("a call to %q = %v, wait %s; want ok %v, busy %v, %v, wait %s", target, err, provider.RetryAfter(err), ok, busy, class, wait)
					}
				}
			},
			"end": func(t *rapid.T) {
				if len(flights) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(flights)-1).Draw(t, "call")
				how := rapid.SampledFrom([]answered{answersWell, answersBadly, answersDenied, answersDenied, answersNot}).Draw(t, "how")
				f := flights[i]
				flights = slices.Delete(flights, i, i+1)
				f.end <- how
				err := <-f.done
				m := model[f.target]
				m.inFlight--
				now++
				var want []string
				if m.end(f.began, now, clk.Now(), how) {
					want = append(want, f.target)
				}
				expectTold(want)
				if (err == nil) != (how == answersWell) {
					t.Fatalf("%v = %v", how, err)
				}
			},
			"check": func(*rapid.T) {
				report := instrument.Begin(p)
				now++
				began := now
				checks = append(checks, func(target string, s provider.TargetStatus) {
					report([]provider.TargetStatus{s})
					now++
					m, lists := model[target], model[""]
					var want []string
					how := map[string]answered{provider.CheckForbidden: answersDenied, provider.CheckTimeout: answersNot}[s.Reason]
					switch {
					case s.Ready:
						for name, one := range map[string]*modelTarget{"": lists, target: m} {
							if one.isShut && began > one.shutAt && one.open(now, clk.Now()) {
								want = append(want, name)
							}
						}
					case how == answersWell, began < m.heard, began < m.openedAt, m.isShut && m.how == how:
					default:
						m.trusted = false
						m.shut(now, clk.Now(), how)
					}
					expectTold(want)
				})
			},
			"checked": func(t *rapid.T) {
				if len(checks) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(checks)-1).Draw(t, "check")
				s := provider.TargetStatus{
					Target: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "target"),
					Reason: rapid.SampledFrom([]string{provider.CheckReachable, provider.CheckForbidden, provider.CheckTimeout, provider.CheckAPIError}).Draw(t, "reason"),
				}
				s.Ready = s.Reason == provider.CheckReachable
				f := checks[i]
				checks = slices.Delete(checks, i, i+1)
				f(s.Target, s)
			},
			"wait": func(t *rapid.T) {
				clk.SetTime(clk.Now().Add(rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Minute, 4 * time.Minute, 15 * time.Minute}).Draw(t, "d")))
			},
			"": func(t *rapid.T) {
				for name, m := range model {
					if m.inFlight > 4 {
						t.Fatal(fmt.Sprint(m.inFlight, " calls in flight to ", name))
					}
				}
			},
		})
	})
}
