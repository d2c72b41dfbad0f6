package client

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// dialTimeout is how long reaching a proxy may take when TransportOptions.Base says nothing else.
const dialTimeout = 10 * time.Second

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// conns are the connections of one lease. CloseIdleConnections alone would leave those behind on which something just ends.
type conns struct {
	dial dialFunc

	mu     sync.Mutex
	closed bool
	open   map[*trackedConn]struct{}
}

// newConns dials as base does.
func newConns(base *http.Transport) *conns {
	dial := base.DialContext
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	return &conns{dial: dial, open: map[*trackedConn]struct{}{}}
}

// DialContext is made for http.Transport. It fails once the connections were closed.
func (cs *conns) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := cs.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, of: cs}
	cs.mu.Lock()
	closed := cs.closed
	if !closed {
		cs.open[tracked] = struct{}{}
	}
	cs.mu.Unlock()
	if closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return tracked, nil
}

// close closes all, and those to come.
func (cs *conns) close() {
	cs.mu.Lock()
	cs.closed = true
	open := cs.open
	cs.open = nil
	cs.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close()
	}
}

type trackedConn struct {
	net.Conn
	of *conns
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
