package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// shape is a state of fleet and ledger, and a request, over which the cost of an acquisition must not grow with the
// fleet. The shapes are gone through in this order on one ledger whose proxies have room for one lease each.
type shape struct {
	name    string
	query   lease.Query
	prepare func(context.Context, *lease.Ledger, *fleet.Store) error
	refused bool
}

const coolTarget = "cold.example"

func shapes() []shape {
	return []shape{
		{name: "no_selector"},
		{name: "one_percent", query: lease.Query{Selector: map[string]string{"percent": "1"}}},
		{name: "empty_intersection", query: lease.Query{Selector: map[string]string{"half": "0", "other": "1"}}, refused: true},
		{name: "cooling_99", query: lease.Query{Target: coolTarget}, prepare: cool},
		{name: "half_full", prepare: func(ctx context.Context, l *lease.Ledger, s *fleet.Store) error { return fill(ctx, l, s.Len()/2) }},
		{name: "all_full", prepare: func(ctx context.Context, l *lease.Ledger, s *fleet.Store) error { return fill(ctx, l, s.Len()) }, refused: true},
	}
}

func ask(q lease.Query, ttl time.Duration) lease.Request {
	return lease.Request{Query: q, TTL: ttl, Principal: "bench"}
}

// cool lets 99 % of the fleet rest for the target.
func cool(ctx context.Context, l *lease.Ledger, s *fleet.Store) error {
	for range s.Len() * 99 / 100 {
		got, err := l.Acquire(ctx, ask(lease.Query{Target: coolTarget}, time.Hour))
		if err != nil {
			return err
		}
		if err := errors.Join(l.Report(got.ID, got.Principal, lease.ResultBanned, ""), l.Release(got.ID, got.Principal)); err != nil {
			return err
		}
	}
	return nil
}

// fill makes most leases live.
func fill(ctx context.Context, l *lease.Ledger, most int) error {
	for l.Live() < most {
		if _, err := l.Acquire(ctx, ask(lease.Query{}, 12*time.Hour)); err != nil {
			return err
		}
	}
	return nil
}

// task is what the orchestrator tells a growth process: prepare a shape and run it for so much CPU time.
type task struct {
	Shape   int
	Prepare bool
	CPU     time.Duration
}

// cost is its answer, per acquisition and release.
type cost struct {
	CPU    time.Duration
	Allocs float64
	Error  string
}

// grow is a process that acquires and releases in a fleet of n proxies. It ends with its standard input.
func grow(ctx context.Context, n int) error {
	store := newFleet(n, 0, 1)
	ledger, err := lease.New(lease.Options{Fleet: store, Clock: clock.RealClock{}})
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var t task
		if err := in.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s := shapes()[t.Shape]
		if t.Prepare && s.prepare != nil {
			err = s.prepare(ctx, ledger, store)
			runtime.GC()
		}
		var c cost
		if err == nil {
			c, err = s.measure(ctx, ledger, t.CPU)
		}
		if err != nil {
			c.Error = fmt.Sprintf("%s: %v", s.name, err)
		}
		if err := out.Encode(c); err != nil {
			return err
		}
	}
}

// measure acquires and releases one by one; a refusal counts as both.
func (s *shape) measure(ctx context.Context, l *lease.Ledger, atLeast time.Duration) (c cost, err error) {
	const batch = 1000
	before, times := meters(), 0
	for start := cpuTime(); times == 0 || cpuTime()-start < atLeast; times += batch {
		for range batch {
			if err := s.once(ctx, l); err != nil {
				return c, err
			}
		}
	}
	after := meters()
	c.CPU = (after.CPU - before.CPU) / time.Duration(times)
	c.Allocs = float64(after.Mallocs-before.Mallocs) / float64(times)
	return c, nil
}

func (s *shape) once(ctx context.Context, l *lease.Ledger) error {
	got, err := l.Acquire(ctx, ask(s.query, time.Hour))
	switch {
	case err == nil && s.refused:
		return errors.New("granted what cannot be")
	case err == nil:
		return l.Release(got.ID, got.Principal)
	case s.refused:
		if _, ok := errors.AsType[*lease.NoMatchError](err); ok {
			return nil
		}
	}
	return err
}
