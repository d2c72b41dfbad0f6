package wiretest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe returns both ends of a connection in memory that takes some bytes before they are read, as sockets do. In a bubble of
// package synctest nothing that waits for it keeps time from passing.
func pipe() (net.Conn, net.Conn) {
	a, b := newQueue(), newQueue()
	return &end{in: a, out: b}, &end{in: b, out: a}
}

// room is how many bytes a queue takes before they are read.
const room = 256 << 10

// queue is one direction.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	data    []byte
	closed  bool // by the one who writes
	gone    bool // the one who reads
}

func newQueue() *queue {
	q := &queue{}
	q.changed.L = &q.mu
	return q
}

func (q *queue) change(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.changed.Broadcast()
}

type end struct {
	net.Conn // nothing of it is used
	in, out  *queue
}

func (e *end) Read(b []byte) (n int, err error) {
	q := e.in
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.data) == 0 && !q.closed && !q.gone {
		q.changed.Wait()
	}
	switch {
	case q.gone:
		return 0, net.ErrClosed
	case len(q.data) == 0:
		return 0, io.EOF
	}
	n = copy(b, q.data)
	q.data = q.data[n:]
	q.changed.Broadcast()
	return n, nil
}

var errBroken = errors.New("broken pipe")

func (e *end) Write(b []byte) (n int, err error) {
	q := e.out
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.closed:
			return n, net.ErrClosed
		case q.gone:
			return n, errBroken
		case n == len(b):
			return n, nil
		}
		some := min(len(b)-n, room-len(q.data))
		q.data = append(q.data, b[n:n+some]...)
		n += some
		q.changed.Broadcast()
		if n < len(b) {
			q.changed.Wait()
		}
	}
}

func (e *end) Close() error {
	e.in.change(func() { e.in.gone = true })
	e.out.change(func() { e.out.closed = true })
	return nil
}

func (e *end) SetDeadline(time.Time) error { return os.ErrNoDeadline }
