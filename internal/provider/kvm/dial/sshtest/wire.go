package sshtest

import (
	"net"
	"sync"
)

// wire is a TCP connection that can fall silent.
type wire struct {
	net.Conn
	mute, done         chan struct{}
	muteOnce, doneOnce sync.Once
}

func newWire(c net.Conn) *wire {
	return &wire{Conn: c, mute: make(chan struct{}), done: make(chan struct{})}
}

func (w *wire) silence() { w.muteOnce.Do(func() { close(w.mute) }) }

// Read blocks until Close once the wire is silent.
func (w *wire) Read(b []byte) (int, error) {
	if !w.silent() {
		// What a read that waits gets after the wire has fallen silent is lost.
		if n, err := w.Conn.Read(b); !w.silent() {
			return n, err
		}
	}
	<-w.done
	return 0, net.ErrClosed
}

// Write does nothing once the wire is silent.
func (w *wire) Write(b []byte) (int, error) {
	if w.silent() {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// Close may be called more than once.
func (w *wire) Close() error {
	w.doneOnce.Do(func() { close(w.done) })
	return w.Conn.Close()
}

func (w *wire) silent() bool {
	select {
	case <-w.mute:
		return true
	default:
		return false
	}
}
