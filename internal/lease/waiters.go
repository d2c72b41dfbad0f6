package lease

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"time"
)

// waiters are the requests that wait for a proxy. Requests of one class for one target stand in one line, in the order in
// which they came; a proxy that becomes free goes to whoever has waited longest of those whom it would do for. The
// ledger's mutex guards it.
type waiters struct {
	lines map[string]*line
	count int
	came  uint64
	// free are seats that became free and have not been offered to the lines yet.
	free []*seat
	// closed: nobody may wait any more.
	closed bool
	// missed: seats became free while this ledger might not grant.
	missed bool
	// wake tells Start that somebody waits now.
	wake chan struct{}
}

type line struct {
	name  string
	class // its target is that of the requests
	queue list.List
}

// waiter is one request in its line.
type waiter struct {
	req  Request
	came uint64
	line *line
	at   *list.Element // nil once it has left the line
	// done gets the one outcome.
	done chan outcome
}

type outcome struct {
	lease Lease
	err   error
}

// Waiting returns how many requests wait for a proxy.
func (l *Ledger) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.count
}

// canWait reports whether waiting may mend the refusal.
func canWait(err error) bool {
	var refused *NoMatchError
	return errors.As(err, &refused) && refused.Considered > 0
}

// join puts a request at the end of its line; nil when too many wait already.
func (ws *waiters) join(rs *rankings, req Request, most int) *waiter {
	if ws.count >= most {
		return nil
	}
	rs.nameOf(req.Query, true)
	l := ws.lines[string(rs.name)]
	if l == nil {
		l = &line{name: string(rs.name), class: req.class()}
		ws.lines[l.name] = l
	}
	ws.count++
	ws.came++
	w := &waiter{req: req, came: ws.came, line: l, done: make(chan outcome, 1)}
	w.at = l.queue.PushBack(w)
	select {
	case ws.wake <- struct{}{}:
	default:
	}
	return w
}

// leave takes w out of its line, if it still stands there.
func (ws *waiters) leave(w *waiter) {
	if w.at == nil {
		return
	}
	w.line.queue.Remove(w.at)
	w.at = nil
	ws.count--
	if w.line.queue.Len() == 0 {
		delete(ws.lines, w.line.name)
	}
}

// freed notes that s may be leased, for some targets at least.
func (ws *waiters) freed(s *seat) {
	if ws.count > 0 {
		ws.free = append(ws.free, s)
	}
}

// firstFor returns whoever has waited longest for a proxy like s.
func (ws *waiters) firstFor(s *seat, now time.Time) *waiter {
	var first *waiter
	for _, l := range ws.lines {
		w, _ := l.queue.Front().Value.(*waiter)
		if (first == nil || w.came < first.came) && l.matches(s.proxy) && s.toward(l.target, now).hindrance == hindranceNone {
			first = w
		}
	}
	return first
}

// serve gives what has become free to those who wait. l.mu is held.
func (l *Ledger) serve(now time.Time) {
	ws := &l.queue
	if ws.count == 0 {
		clear(ws.free)
		ws.free, ws.missed = ws.free[:0], false
		return
	}
	if !l.o.MayGrant() {
		ws.missed = true
		return
	}
	if ws.missed { // whatever is free now may have become so meanwhile
		ws.missed = false
		l.refreshAll(now)
	}
	for len(ws.free) > 0 && ws.count > 0 && l.o.MayGrant() {
		s := ws.free[len(ws.free)-1]
		if l.rankings.seats[s.number] != s || s.hindrance != hindranceNone {
			ws.free = ws.free[:len(ws.free)-1]
			continue
		}
		w := ws.firstFor(s, now)
		if w == nil {
			ws.free = ws.free[:len(ws.free)-1]
			continue
		}
		lease, err := l.acquire(w.req, now)
		var refused *NoMatchError
		if errors.As(err, &refused) {
			// The fleet has changed; what it holds now is on the list by that.
			ws.free = slices.DeleteFunc(ws.free, func(other *seat) bool { return other == s })
			continue
		}
		ws.leave(w)
		w.done <- outcome{lease, err}
		if err == nil && w.req.Key != "" {
			ws.answerTwins(w.req, lease)
		}
	}
	if len(ws.free) > 0 && ws.count > 0 {
		ws.missed = true // the right to grant ended on the way
	}
	clear(ws.free)
	ws.free = ws.free[:0]
}

// answerTwins gives the lease to everybody who waits under the same key and with the same body: the request was repeated
// while it waited.
func (ws *waiters) answerTwins(req Request, lease Lease) {
	for _, l := range ws.lines {
		for e := l.queue.Front(); e != nil; {
			w, _ := e.Value.(*waiter)
			e = e.Next()
			if w.req.Key == req.Key && w.req.Principal == req.Principal && w.req.Body == req.Body {
				ws.leave(w)
				w.done <- outcome{lease: lease}
			}
		}
	}
}

// await waits for w's turn.
func (l *Ledger) await(ctx context.Context, w *waiter) (Lease, error) {
	timer := l.o.Clock.NewTimer(w.req.Wait)
	defer timer.Stop()
	select {
	case got := <-w.done:
		return got.lease, got.err
	case <-ctx.Done():
		return Lease{}, l.giveUp(w, ctx.Err())
	case <-timer.C():
		return l.lastTry(w)
	}
}

// giveUp takes w out of its line and gives back what it may have got meanwhile; not what it can ask for again by its key.
func (l *Ledger) giveUp(w *waiter, because error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	l.queue.leave(w)
	select {
	case got := <-w.done:
		if r := l.leases[got.lease.ID]; got.err == nil && w.req.Key == "" && r != nil && r.ended == endNone {
			l.end(r, endReleased, now)
			l.serve(now)
		}
	default:
	}
	if _, refused := l.pick(w.req.Query, now); refused != nil {
		return errors.Join(because, refused)
	}
	return because
}

// lastTry ends w's wait with what there is now.
func (l *Ledger) lastTry(w *waiter) (Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.begin()
	select {
	case got := <-w.done:
		return got.lease, got.err
	default:
	}
	l.queue.leave(w)
	return l.acquire(w.req, now)
}

// dismiss ends every wait with err, now and from now on. l.mu is held.
func (l *Ledger) dismiss(err error) {
	l.queue.closed = true
	for _, line := range l.queue.lines {
		for e := line.queue.Front(); e != nil; e = line.queue.Front() {
			w, _ := e.Value.(*waiter)
			l.queue.leave(w)
			w.done <- outcome{err: err}
		}
	}
}
