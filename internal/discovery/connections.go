package discovery

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// connections bounds how many connections are served at one time. When every place is taken, a new connection gets that
// of the one which has been idle for the longest, so that clients who hold connections without using them keep nobody
// out; while none is idle, new ones wait in the kernel's queue.
type connections struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once

	mu   sync.Mutex
	idle list.List // of net.Conn, the longest idle first
	at   map[net.Conn]*list.Element
	// waiting: a connection has been accepted for which there is no place yet.
	waiting bool
}

func newConnections(l net.Listener, most int) *connections {
	return &connections{Listener: l, places: make(chan struct{}, most), closed: make(chan struct{}), at: map[net.Conn]*list.Element{}}
}

// Accept implements net.Listener. It blocks until there is a connection and a place for it.
func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case c.places <- struct{}{}:
		return &placed{Conn: conn, leave: c.leave}, nil
	default:
	}
	c.evict()
	select {
	case c.places <- struct{}{}:
		c.mu.Lock()
		c.waiting = false
		c.mu.Unlock()
		return &placed{Conn: conn, leave: c.leave}, nil
	case <-c.closed:
		_ = conn.Close()
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (c *connections) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Listener.Close()
}

func (c *connections) leave() { <-c.places }

// evict makes room: it closes the connection that has been idle for the longest, or the next one that falls idle.
func (c *connections) evict() {
	c.mu.Lock()
	c.waiting = true
	var conn net.Conn
	if first := c.idle.Front(); first != nil {
		conn, _ = c.idle.Remove(first).(net.Conn)
		delete(c.at, conn)
		c.waiting = false
	}
	c.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// state follows the server's connections, as http.Server.ConnState.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	if e := c.at[conn]; e != nil {
		c.idle.Remove(e)
		delete(c.at, conn)
	}
	needed := s == http.StateIdle && c.waiting
	switch {
	case needed:
		c.waiting = false
	case s == http.StateIdle:
		c.at[conn] = c.idle.PushBack(conn)
	}
	c.mu.Unlock()
	if needed {
		_ = conn.Close()
	}
}

// placed gives its place back when it is closed.
type placed struct {
	net.Conn
	leave func()
	once  sync.Once
}

// Close implements net.Conn.
func (p *placed) Close() error {
	err := p.Conn.Close()
	p.once.Do(p.leave)
	return err
}

// CloseWrite lets the server end its side first, so that an answer to a client that is still sending is not lost.
func (p *placed) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
