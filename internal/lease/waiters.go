package lease

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"time"
)

// waiters are the requests that wait for a proxy: one that becomes free goes to whoever has waited longest of those whom
// it would do for. The ledger's mutex guards it.
type waiters struct {
	lines lines
	count int
	came  uint64
	// of are each principal's, in the order in which they came.
	of map[string]*list.List
	// keyed are those whose requests have a key.
	keyed map[keyName]map[*waiter]struct{}
	// free are seats that became free and have not been offered to those who wait yet.
	free []*seat
	// slice is the constant, but for tests.
	slice int
	// closed: nobody may wait any more.
	closed bool
	// missed: seats became free while this ledger might not grant.
	missed bool
	// wake tells Start that somebody waits now.
	wake chan struct{}
}

func newWaiters() waiters {
	return waiters{
		lines: newLines(), of: map[string]*list.List{}, keyed: map[keyName]map[*waiter]struct{}{}, wake: make(chan struct{}, 1), slice: slice,
	}
}

// waiter is one request in its line.
type waiter struct {
	req  Request
	came uint64
	line *line
	// at is the place in the line, nil once it has left; among is that in its principal's list.
	at, among *list.Element
	// done gets the one outcome.
	done chan outcome
}

// errDisplaced is for a waiter whose place somebody else got; its wait is over.
var errDisplaced = errors.New("displaced")

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

// join puts a request at the end of its line. When too many wait already it takes the place of the last one of the
// principal that has the most, provided its own would not have as many then; otherwise join returns nil.
func (ws *waiters) join(rs *rankings, req Request, most int, proxies func(map[string]string) int) *waiter {
	if ws.count >= most && !ws.displace(req.Principal) {
		return nil
	}
	q := req.Query
	q.Target = ""
	rs.nameOf(q, false)
	ws.came++
	w := &waiter{req: req, came: ws.came, done: make(chan outcome, 1)}
	ws.lines.push(w, string(rs.name), proxies)
	ws.count++
	mine := ws.of[req.Principal]
	if mine == nil {
		mine = list.New()
		ws.of[req.Principal] = mine
	}
	w.among = mine.PushBack(w)
	if name := req.keyName(); name != (keyName{}) {
		if ws.keyed[name] == nil {
			ws.keyed[name] = map[*waiter]struct{}{}
		}
		ws.keyed[name][w] = struct{}{}
	}
	ws.ring()
	return w
}

// displace makes room for one more of principal, so that nobody can keep the others from waiting.
func (ws *waiters) displace(principal string) bool {
	var largest *list.List
	for _, l := range ws.of {
		if largest == nil || l.Len() > largest.Len() {
			largest = l
		}
	}
	mine := 0
	if l := ws.of[principal]; l != nil {
		mine = l.Len()
	}
	if largest == nil || largest.Len() <= mine+1 {
		return false
	}
	last, _ := largest.Back().Value.(*waiter)
	ws.leave(last)
	last.done <- outcome{err: errDisplaced}
	return true
}

// leave takes w out of its line, if it still stands there.
func (ws *waiters) leave(w *waiter) {
	if w.at == nil {
		return
	}
	ws.lines.remove(w)
	ws.count--
	mine := ws.of[w.req.Principal]
	if mine.Remove(w.among); mine.Len() == 0 {
		delete(ws.of, w.req.Principal)
	}
	if name := w.req.keyName(); name != (keyName{}) {
		if delete(ws.keyed[name], w); len(ws.keyed[name]) == 0 {
			delete(ws.keyed, name)
		}
	}
}

// freed notes that s may be leased, for some targets at least.
func (ws *waiters) freed(s *seat) {
	if ws.count > 0 {
		ws.free = append(ws.free, s)
	}
}

// slice is how many seats one call of serve deals with, for the ledger's lock is held meanwhile. Start goes on with the
// rest, and whoever asks in between gets none of it that somebody waits for.
const slice = 512

// serve gives what has become free to those who wait: each seat to whoever has waited longest for one like it, the best
// seats first. l.mu is held.
func (l *Ledger) serve(now time.Time) {
	ws := &l.queue
	switch {
	case ws.count == 0:
		ws.missed = false
		ws.forget(0)
		return
	case !l.o.MayGrant():
		ws.missed = true
		ws.forget(0)
		return
	case ws.missed: // whatever is free now may have become so meanwhile
		ws.missed = false
		for _, s := range l.seats {
			if s.hindrance == hindranceNone {
				ws.freed(s)
			}
		}
	}
	first := max(0, len(ws.free)-ws.slice)
	some := ws.free[first:]
	if len(some) > 1 {
		slices.SortFunc(some, func(a, b *seat) int {
			switch { // they are taken from the end; one may be there twice
			case PreferLatency.before(b, a):
				return -1
			case PreferLatency.before(a, b):
				return 1
			}
			return 0
		})
	}
	some = slices.Clone(some) // more may be freed on the way
	ws.forget(first)
	for len(some) > 0 && ws.count > 0 {
		s := some[len(some)-1]
		if s.gone || s.hindrance != hindranceNone {
			some = some[:len(some)-1]
			continue
		}
		w := ws.lines.firstFor(s, now)
		if w == nil {
			some = some[:len(some)-1]
			continue
		}
		if !l.give(s, w, now) && ws.missed {
			return
		}
	}
	if len(ws.free) > 0 {
		ws.ring()
	}
}

// forget shortens the list of what has become free to its first n.
func (ws *waiters) forget(n int) {
	clear(ws.free[n:])
	ws.free = ws.free[:n]
}

// ring tells Start that there is something to do.
func (ws *waiters) ring() {
	select {
	case ws.wake <- struct{}{}:
	default:
	}
}

// give lets w have s and ends its wait. It is false when nothing came of it: the fleet turned out to have changed, which is
// taken in by then, or the right to grant has ended. l.mu is held.
func (l *Ledger) give(s *seat, w *waiter, now time.Time) bool {
	lease, ok, err := l.again(w.req, now)
	if !ok {
		lease, ok, err = l.tryAcquire(s, w.req, now)
	}
	if errors.Is(err, ErrMayNotGrant) {
		l.queue.missed = true
		return false
	}
	if !ok && err == nil {
		return false
	}
	l.queue.leave(w)
	w.done <- outcome{lease, err}
	if err == nil {
		l.queue.answerTwins(w.req, lease)
	}
	return true
}

// answerTwins gives the lease to everybody who waits under the same key and with the same body: the request was repeated
// while it waited.
func (ws *waiters) answerTwins(req Request, lease Lease) {
	for w := range ws.keyed[req.keyName()] {
		if w.req.Body == req.Body {
			ws.leave(w)
			w.done <- outcome{lease: lease}
		}
	}
}

// await waits for w's turn.
func (l *Ledger) await(ctx context.Context, w *waiter) (Lease, error) {
	timer := l.o.Clock.NewTimer(w.req.Wait)
	defer timer.Stop()
	select {
	case got := <-w.done:
		if errors.Is(got.err, errDisplaced) {
			return l.lastTry(w)
		}
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
		if !errors.Is(got.err, errDisplaced) {
			return got.lease, got.err
		}
	default:
	}
	l.queue.leave(w)
	return l.acquire(w.req, now)
}

// dismiss ends every wait with err, now and from now on. l.mu is held.
func (l *Ledger) dismiss(err error) {
	l.queue.closed = true
	for _, of := range l.queue.of {
		for e := of.Front(); e != nil; e = of.Front() {
			w, _ := e.Value.(*waiter)
			l.queue.leave(w)
			w.done <- outcome{err: err}
		}
	}
}
