package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	runs = 5
	// clients is how many connections lease at one time, crowd how many do when a pool is exhausted.
	clients, crowd = 16, 2000
	// crowdTurns is how often the crowd asks crowdCalls times for what it gets, and as often for what it does not.
	crowdTurns, crowdCalls = 4, 2 * crowd
	listsPerSecond         = 5
	marshalTimes           = 50
	// turns is how often each server has its turn in an open loop.
	turns = 8
)

// span is d, or three times that with BENCH_FULL.
func span(d time.Duration) time.Duration {
	if os.Getenv("BENCH_FULL") == "1" {
		return 3 * d
	}
	return d
}

// server is a server process and how the load generator reaches it.
type server struct {
	*process
	load *process
	addr string
	// idle is what a second without lease calls costs.
	idle struct{ cpu, alloc float64 }
}

// window is what a load did and what it cost the server beyond a run without it. CPU is in microseconds.
type window struct {
	result
	cpu, alloc float64
}

func startServer(ctx context.Context, load *process, mode string) (*server, error) {
	p, err := start(ctx, mode)
	if err != nil {
		return nil, err
	}
	var ready reading
	err = p.tell(nil, &ready)
	return &server{process: p, load: load, addr: ready.Addr}, err
}

// do carries out an order between two readings of the server's meters.
func (s *server) do(o order) (w window, err error) {
	o.Addr, o.Lists = s.addr, listsPerSecond
	if o.For == 0 {
		o.For = time.Minute
	}
	var before, after reading
	if err := s.tell(command{}, &before); err != nil {
		return w, err
	}
	if err := s.load.tell(o, &w.result); err != nil {
		return w, err
	}
	if err := s.tell(command{}, &after); err != nil {
		return w, err
	}
	if w.Error != "" {
		return w, errors.New(w.Error)
	}
	seconds := w.Took.Seconds()
	w.cpu = float64((after.CPU - before.CPU).Microseconds()) - seconds*s.idle.cpu
	w.alloc = float64(after.Alloc-before.Alloc) - seconds*s.idle.alloc
	return w, nil
}

// each is do for orders that must get something done; what it cost is then that of one operation.
func (s *server) each(o order) (window, error) {
	w, err := s.do(o)
	if err == nil && w.Ops < 100 && o.Op != opList {
		err = fmt.Errorf("%s: only %d operations", o.Op, w.Ops)
	}
	if err == nil && (w.Ops == 0 || w.cpu <= 0) {
		err = fmt.Errorf("%s: %d operations in %g µs of CPU", o.Op, w.Ops, w.cpu)
	}
	w.cpu, w.alloc = w.cpu/float64(w.Ops), w.alloc/float64(w.Ops)
	return w, err
}

func (s *server) measureIdle() error {
	s.idle = struct{ cpu, alloc float64 }{}
	w, err := s.do(order{Op: opNone, For: span(time.Second)})
	s.idle.cpu, s.idle.alloc = w.cpu/w.Took.Seconds(), w.alloc/w.Took.Seconds()
	return err
}

// measureServers fills in the figures that come from whole servers.
func measureServers(ctx context.Context, f figures) error {
	load, err := start(ctx, "load")
	if err != nil {
		return err
	}
	api, err := startServer(ctx, load, "api")
	if err != nil {
		return err
	}
	ref, err := startServer(ctx, load, "reference")
	if err != nil {
		return err
	}
	b := bench{figures: f, api: api, ref: ref}
	if err := b.warm(); err != nil {
		return err
	}
	for i := range runs {
		for _, step := range []func(first int) error{b.idle, b.cpu, b.p99, b.lists, b.refusals} {
			if err := step(i % 2); err != nil {
				return fmt.Errorf("run %d: %w", i+1, err)
			}
		}
	}
	return errors.Join(load.end(), api.end(), ref.end())
}
