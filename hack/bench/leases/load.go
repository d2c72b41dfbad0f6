package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// The operations of a load.
const (
	opNone    = "none"    // background alone
	opPair    = "pair"    // acquire and release; two calls of the reference
	opTwice   = "twice"   // two calls of the reference
	opAcquire = "acquire" // acquire and remember
	opRelease = "release" // release what opAcquire remembers, all of it
	opHold    = "hold"    // acquire from the small pool, for good
	opRefused = "refused" // acquire from the small pool and be refused
	opList    = "list"    // one page
)

// order is what the orchestrator tells the load generator: Conns connections do Op over and over, in a closed loop for
// For or Count times, whichever comes first; with Rate, in an open loop with that many a second. Lists a second are
// asked for beside it.
type order struct {
	Addr  string
	Op    string
	Conns int
	For   time.Duration
	Count int64
	Rate  float64
	Seed  uint64
	Lists float64
}

// result tells how much was done in how long. Latencies are those of the first calls of the operations in an open loop,
// Bytes the size of the answers to them.
type result struct {
	Ops       int64
	Took      time.Duration
	Latencies []time.Duration
	Bytes     int
	Error     string
}

// generator is the load generator process.
type generator struct {
	conns map[string][]*conn
	// kept are the leases acquired and not released.
	kept []string
}

// generate obeys orders until standard input ends.
func generate(ctx context.Context) error {
	g := &generator{conns: map[string][]*conn{}}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r, err := g.run(ctx, o)
		if err != nil {
			r.Error = err.Error()
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
}

// connected returns n connections to addr, those of earlier orders first.
func (g *generator) connected(ctx context.Context, addr string, n int) ([]*conn, error) {
	for len(g.conns[addr]) < n {
		c, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		g.conns[addr] = append(g.conns[addr], c)
	}
	return g.conns[addr][:n], nil
}

func (g *generator) run(ctx context.Context, o order) (result, error) {
	conns, err := g.connected(ctx, o.Addr, o.Conns+1)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	beside := make(chan error, 1)
	go func() { beside <- list(ctx, conns[0], o.Lists) }()
	l := newLoop(o, g)
	var workers sync.WaitGroup
	errs := make([]error, 1+o.Conns)
	for i, c := range conns[1:] {
		workers.Go(func() { errs[1+i] = l.work(ctx, c) })
	}
	workers.Wait()
	if o.Op == opNone {
		<-ctx.Done()
	}
	cancel()
	errs[0] = <-beside
	return l.result(), errors.Join(errs...)
}

// list asks for lists at a rate until ctx ends.
func list(ctx context.Context, c *conn, rate float64) error {
	if rate <= 0 {
		return nil
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := c.call(request(http.MethodGet, listPath, ""), http.StatusOK); err != nil {
			return err
		}
	}
}
