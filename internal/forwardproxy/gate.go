package forwardproxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// refusalTime bounds telling one connection that it is refused.
	refusalTime = time.Second
	// maxRefusals bounds how many are told at a time; beyond, they are just closed.
	maxRefusals = 64
	// maxRefusedBytes is what is read of a refused request, so that closing does
	// not reset the connection before the client saw the answer.
	maxRefusedBytes = 64 << 10
)

// gate is the listener that lets in only allowed addresses, and only so many.
type gate struct {
	net.Listener
	server *Server
}

// Accept blocks until a connection may come in; it answers the others itself.
func (g *gate) Accept() (net.Conn, error) {
	s := g.server
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		switch {
		case !clientAllowed(s.cfg.AllowClients, c.RemoteAddr()):
			s.turnAway(c, failure{http.StatusForbidden, "http_request_denied", "client address not allowed"})
		case !s.conns.add(s.cfg.MaxConnections):
			s.turnAway(c, failure{http.StatusServiceUnavailable, "connection_limit_reached", "too many connections"})
		default:
			return &clientConn{Conn: c, release: sync.OnceFunc(s.conns.done)}, nil
		}
	}
}

func clientAllowed(allow []netip.Prefix, remote net.Addr) bool {
	if len(allow) == 0 {
		return true
	}
	tcp, ok := remote.(*net.TCPAddr)
	return ok && containsAddr(allow, tcp.AddrPort().Addr())
}

// turnAway answers without reading a request first, off the accept loop.
func (s *Server) turnAway(c net.Conn, f failure) {
	if !s.refusals.add(maxRefusals) {
		_ = c.Close()
		return
	}
	go func() {
		defer s.refusals.done()
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(deadline(refusalTime))
		if _, err := fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nProxy-Status: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
			f.status, http.StatusText(f.status), f.proxyStatus(), textPlain, len(f.text)+1, f.text); err != nil {
			return
		}
		if closeWrite(c) {
			_, _ = io.CopyN(io.Discard, c, maxRefusedBytes)
		}
	}()
}

// clientConn is counted until it is closed, also after it was hijacked.
type clientConn struct {
	net.Conn
	release func()
}

func (c *clientConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}

// CloseWrite lets a tunnel pass on that one direction has ended.
func (c *clientConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// closeWrite ends the writing half and reports whether the connection has one.
// That it is broken already is for the other direction to find: there may still
// be bytes to read.
func closeWrite(c net.Conn) bool {
	half, ok := c.(interface{ CloseWrite() error })
	return ok && !errors.Is(half.CloseWrite(), errors.ErrUnsupported)
}

// deadline is the one place where the proxy reads real time: the kernel's
// deadlines know no injected clock.
func deadline(d time.Duration) time.Time { return time.Now().Add(d) }
