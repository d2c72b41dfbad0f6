package connlimit

import (
	"container/list"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// MaxUnprovenLines bounds the header of a connection that is unproven. net/http bounds its bytes, but 36 KB of the
// shortest lines become about 1 MB in memory, and 1000 of them 150 KB. Clients send a few dozen.
const MaxUnprovenLines = 250

// Conn is a connection that has a place among others, which it gives back when it is closed.
type Conn struct {
	net.Conn
	among *Listener
	once  sync.Once
	since time.Time

	// The mutex of among guards these. in is the list that the connection is in, nil for none.
	in     *list.List
	at     *list.Element
	active bool
	left   bool

	proven atomic.Bool
	// served: something of a request has been read. told: a handshake that failed has been reported.
	served, told atomic.Bool
	// header is that of the first request, or the next one as long as none has proven anything.
	header headerLines
	// more is called with each byte that arrives while a request waits; ahead says that one has arrived before its turn.
	more  atomic.Pointer[func()]
	ahead atomic.Bool
}

// move puts p at the end of the list to, or into none. The mutex of p.among is held.
func (p *Conn) move(to *list.List) {
	if p.in != nil {
		p.in.Remove(p.at)
	}
	if p.in = to; to != nil {
		p.at = to.PushBack(p)
	}
}

// Prove notes that a request on p has passed authentication. It does not block.
func (p *Conn) Prove() {
	if p == nil || p.proven.Swap(true) {
		return
	}
	c := p.among
	c.mu.Lock()
	c.lastProven = time.Now()
	p.move(nil)
	c.mu.Unlock()
	c.signal()
}

// Read implements net.Conn.
func (p *Conn) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	if n == 0 {
		if err != nil {
			p.handshakeFailed(err)
		}
		return n, err
	}
	p.served.Store(true)
	if !p.proven.Load() && p.header.add(b[:n]) > MaxUnprovenLines {
		_ = p.Close()
		return 0, io.EOF
	}
	// While a handler runs net/http reads a single byte, to notice when the client hangs up. Once it has got one it notices
	// no more (golang.org/issue/23921). Nothing else reads so little.
	if ahead := len(b) == 1; ahead != p.ahead.Load() {
		p.ahead.Store(ahead)
	}
	if f := p.more.Load(); f != nil {
		(*f)()
	}
	return n, err
}

// During lets f be called when a byte arrives before the end of the request that is being served, until stop is called.
// The whole request has been read. f may be called at once and several times.
func (p *Conn) During(f func()) (stop func()) {
	if p == nil {
		return func() {}
	}
	p.more.Store(&f)
	if p.ahead.Load() {
		f()
	}
	return func() { p.more.Store(nil) }
}

// Close implements net.Conn.
func (p *Conn) Close() error {
	err := p.Conn.Close()
	p.once.Do(func() {
		c := p.among
		c.mu.Lock()
		c.held--
		p.left = true
		p.move(nil)
		c.mu.Unlock()
		c.signal()
	})
	return err
}

// CloseWrite lets the server end its side first, so that an answer to a client that is still sending is not lost.
func (p *Conn) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// headerLines counts the lines of one header as they come in; what follows its end does not count.
type headerLines struct {
	lines int
	// filled: the line so far is not empty.
	filled, ended bool
}

// add takes in what has been read and returns how many lines there are so far.
func (h *headerLines) add(b []byte) int {
	for _, c := range b {
		switch {
		case h.ended:
			return h.lines
		case c == '\n':
			h.lines++
			h.ended, h.filled = !h.filled, false
		case c != '\r':
			h.filled = true
		}
	}
	return h.lines
}
