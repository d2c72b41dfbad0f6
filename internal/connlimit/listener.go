package connlimit

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// MaxUnproven bounds the connections held on which nobody has been let in yet.
	MaxUnproven = 256
	// provingTime is for how long such a connection keeps its place although others need it, and twice that if within the
	// last provingPause another one has been proven. By then an honest client has shown its token, also one of a crowd that
	// begins at one moment: with 100 ms some of 2,000 were too slow.
	provingTime  = 500 * time.Millisecond
	provingPause = 100 * time.Millisecond
)

// Listener bounds how many connections are served at one time, and how many of them are unproven: no request on them
// has passed authentication, as Conn.Prove tells. A new connection is unproven. Where there is no room for it, it gets the place of
//
//  1. the oldest unproven one, once that has had its time;
//  2. if every place is taken and there is none such, the proven one that has been idle for the longest.
//
// So neither clients without a token nor those who hold connections without using them keep anybody out for good. While
// there is nobody to go, new connections wait in the kernel's queue: a flood of more than MaxUnproven for each provingTime,
// about 500 a second, makes everybody wait who comes anew.
type Listener struct {
	net.Listener
	o                  Options
	most, mostUnproven int
	// wake tells Accept that there may be room.
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once

	mu sync.Mutex
	// held counts all connections, active those on which a request is being served.
	held, active int
	lastProven   time.Time
	unproven     list.List // of *Conn, the oldest first
	idle         list.List // of *Conn that are proven, the longest idle first
}

// Options say what a Listener does. The zero value takes one plain connection at a time.
type Options struct {
	// Most bounds the connections held, at least 1; a half of them, up to MaxUnproven, may be unproven.
	Most int
	// TLS, unless nil, is spoken on every connection, in version 1.2 or later and with HTTP/1.1 only.
	TLS *tls.Config
	// HandshakeFailed is called with each client with which TLS does not come about: one of HandshakeReasons and the error,
	// which holds nothing secret. It must not block. Nil for nobody who wants to know.
	HandshakeFailed func(client net.Addr, reason string, err error)
}

// New bounds the connections of l as o says.
func New(l net.Listener, o Options) *Listener {
	most := max(1, o.Most)
	return &Listener{
		Listener: secure(l, o.TLS), o: o, most: most, mostUnproven: max(1, min(MaxUnproven, most/2)),
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

// Accept implements net.Listener. It blocks until there is a connection and a place for it.
func (c *Listener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &Conn{Conn: conn, among: c}
	for {
		ok, goes, wait := c.place(p)
		switch {
		case ok:
			return p, nil
		case goes != nil:
			_ = goes.cut()
		case !c.pause(wait):
			_ = conn.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (c *Listener) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

// place takes p in if there is room. Otherwise it says who goes, or how long it takes until somebody might; 0 for
// nobody knows.
func (c *Listener) place(p *Conn) (ok bool, goes *Conn, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := c.unproven.Len() < c.mostUnproven
	if room && c.held < c.most {
		c.held++
		p.since = time.Now()
		p.move(&c.unproven)
		return true, nil, 0
	}
	if first := c.unproven.Front(); first != nil {
		oldest, _ := first.Value.(*Conn)
		if wait = time.Until(c.overFor(oldest)); wait <= 0 {
			oldest.move(nil)
			return false, oldest, 0
		}
	}
	if first := c.idle.Front(); first != nil && room {
		idlest, _ := first.Value.(*Conn)
		idlest.move(nil)
		return false, idlest, 0
	}
	return false, nil, wait
}

// overFor returns when an unproven connection has had its time. c.mu is held.
func (c *Listener) overFor(p *Conn) time.Time {
	over, latest := p.since.Add(provingTime), p.since.Add(2*provingTime)
	if paused := c.lastProven.Add(provingPause); paused.After(over) {
		over = paused
	}
	if over.After(latest) {
		return latest
	}
	return over
}

// pause waits until there may be room, for as long as wait when that is not 0. It is false when the listener has closed.
func (c *Listener) pause(wait time.Duration) bool {
	var passed <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-c.wake:
	case <-passed:
	case <-c.closed:
		return false
	}
	return true
}

func (c *Listener) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// State follows the server's connections: it is for http.Server.ConnState.
func (c *Listener) State(conn net.Conn, s http.ConnState) {
	p, ok := conn.(*Conn)
	if !ok {
		return
	}
	c.mu.Lock()
	if active := s == http.StateActive; active != p.active {
		p.active = active
		if active {
			c.active++
		} else {
			c.active--
		}
	}
	switch {
	case p.in == &c.unproven:
		if s == http.StateIdle { // after /healthz, which proves nothing
			p.header = headerLines{}
		}
	case s == http.StateIdle && !p.left:
		p.move(&c.idle)
	default:
		p.move(nil)
	}
	c.mu.Unlock()
	if s == http.StateIdle {
		c.signal()
	}
}

// Count returns how many connections are held. It does not block.
func (c *Listener) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held
}

// Busy returns on how many connections a request is being served. It does not block.
func (c *Listener) Busy() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// connKey is where the context of a request has its connection.
type connKey struct{}

// Context lets Of find the connection of a request: it is for http.Server.ConnContext.
func (c *Listener) Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// Of returns the connection of a request, nil when it did not come over one of this package. All methods that take part in
// serving a request do nothing on nil.
func Of(r *http.Request) *Conn {
	p, _ := r.Context().Value(connKey{}).(*Conn)
	return p
}
