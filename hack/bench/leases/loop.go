package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// loop is one order being carried out by several connections.
type loop struct {
	order
	g     *generator
	start time.Time
	// due are the arrivals of an open loop, since start.
	due  []time.Duration
	next atomic.Int64

	mu        sync.Mutex // guards what follows, and g.kept
	latencies []time.Duration
	ops       int64
	bytes     int
}

func newLoop(o order, g *generator) *loop {
	l := &loop{order: o, g: g, start: time.Now()}
	if o.Op == opRelease {
		l.Count = int64(len(g.kept))
	}
	// The same arrivals for both servers, independent of each other like those of many clients.
	r := rand.New(rand.NewPCG(1, o.Seed))
	for at := 0.0; o.Rate > 0 && at < o.For.Seconds(); at += r.ExpFloat64() / o.Rate {
		l.due = append(l.due, time.Duration(at*float64(time.Second)))
	}
	return l
}

func (l *loop) result() result {
	if l.Op == opRelease {
		l.g.kept = nil
	}
	return result{Ops: l.ops, Took: time.Since(l.start), Latencies: l.latencies, Bytes: l.bytes}
}

// work does operations on c until the order is carried out.
func (l *loop) work(ctx context.Context, c *conn) error {
	w := worker{loop: l, conn: c}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.latencies = append(l.latencies, w.latencies...)
		l.ops += w.ops
		l.g.kept = append(l.g.kept, w.kept...)
		l.bytes = max(l.bytes, w.bytes)
	}()
	for i := l.next.Add(1) - 1; l.Op != opNone && ctx.Err() == nil; i = l.next.Add(1) - 1 {
		if l.Count > 0 && i >= l.Count || l.Rate > 0 && i >= int64(len(l.due)) {
			return nil
		}
		if err := w.operate(l.arrival(i), i); err != nil {
			return fmt.Errorf("%s: %w", l.Op, err)
		}
	}
	return nil
}

// arrival waits for the i-th operation and returns since when it has been due. How late the generator's own timer is, with
// a connection waiting, is not held against the server.
func (l *loop) arrival(i int64) time.Time {
	if l.Rate <= 0 {
		return time.Now()
	}
	due := l.start.Add(l.due[i])
	wait := time.Until(due)
	if wait <= 0 {
		return due
	}
	<-time.After(wait)
	return time.Now()
}

// worker is what one connection does and finds out.
type worker struct {
	*loop
	*conn
	latencies []time.Duration
	ops       int64
	kept      []string
	bytes     int
}

var (
	acquireLarge = request(http.MethodPost, "/v1/leases", largeBody)
	acquireSmall = request(http.MethodPost, "/v1/leases", smallBody)
	acquireHeld  = request(http.MethodPost, "/v1/leases", holdBody)
	listPage     = request(http.MethodGet, listPath, "")
)

// operate does one operation; the first call counts since from.
func (w *worker) operate(from time.Time, i int64) error {
	var err error
	switch w.Op {
	case opPair, opTwice, opAcquire:
		err = w.call(acquireLarge, http.StatusCreated)
	case opHold:
		err = w.call(acquireHeld, http.StatusCreated)
	case opRefused:
		err = w.call(acquireSmall, http.StatusConflict)
	case opList:
		err = w.call(listPage, http.StatusOK)
	case opRelease:
		err = w.release(w.g.kept[i])
	}
	if err != nil {
		return err
	}
	if w.Rate > 0 {
		w.latencies = append(w.latencies, time.Since(from))
	}
	w.ops, w.bytes = w.ops+1, w.body.Len()
	switch w.Op {
	case opTwice:
		return w.call(acquireLarge, http.StatusCreated)
	case opAcquire:
		id, err := w.leaseID()
		w.kept = append(w.kept, id)
		return err
	case opPair:
		id, err := w.leaseID()
		if err != nil {
			return err
		}
		return w.release(id)
	}
	return nil
}

func (w *worker) release(id string) error {
	return w.call(request(http.MethodDelete, "/v1/leases/"+id, ""), http.StatusNoContent)
}
