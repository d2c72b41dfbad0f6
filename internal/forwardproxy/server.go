package forwardproxy

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	bufferBytes            = 32 << 10
	maxResponseHeaderBytes = 256 << 10
	maxIdleUpstreams       = 256
	maxIdlePerUpstream     = 16
	// A destination that does not know 100-continue gets the body after this.
	continueWait = time.Second
	// headerSlop is what net/http reads beyond its limit.
	headerSlop = 4096
)

// Server is one forward proxy. See the package documentation for its life.
type Server struct {
	cfg       Config
	http      *http.Server
	transport *http.Transport
	buffers   sync.Pool

	// killed ends when Shutdown's patience does; all that still runs hangs on it.
	killed context.Context //nolint:containedctx // the life of the server, which no call brings along
	kill   context.CancelFunc

	conns    tracker // accepted client connections, until closed
	refusals tracker // connections being told that they are refused
	dials    tracker // a transport's dial outlives the request that asked for it
}

// New checks cfg and builds a server that does not listen yet. An error names
// the field and the value that is out of bounds.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg}
	s.killed, s.kill = context.WithCancel(context.Background())

	var http1 http.Protocols
	http1.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		Protocols:         &http1,
		ReadHeaderTimeout: cfg.HeaderTimeout,
		IdleTimeout:       cfg.IdleTimeout,
		MaxHeaderBytes:    cfg.MaxHeaderBytes - headerSlop,
		ErrorLog:          log.New(logWriter{cfg.Log}, "", 0),
		// "OPTIONS *" would be answered by net/http and not by us.
		DisableGeneralOptionsHandler: true,
	}
	s.transport = &http.Transport{
		Proxy:                  nil, // the environment's proxies are not ours
		DialContext:            s.dial,
		Protocols:              &http1,
		DisableCompression:     true,
		MaxIdleConns:           maxIdleUpstreams,
		MaxIdleConnsPerHost:    maxIdlePerUpstream,
		IdleConnTimeout:        cfg.IdleTimeout,
		ExpectContinueTimeout:  continueWait,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
	}
	return s, nil
}

// Serve accepts clients on l, which it closes, and blocks until [Server.Shutdown]
// begins, when it returns nil, or until l fails. It may be called for several
// listeners.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(&gate{Listener: l, server: s})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting, lets requests and tunnels finish until ctx ends and
// then closes them. It blocks until every goroutine of the server's connections
// has ended, and returns ctx's error if something had to be cut, else nil.
func (s *Server) Shutdown(ctx context.Context) error {
	// It closes listeners and idle connections; hijacked ones are ours to await.
	err := s.http.Shutdown(ctx)
	if waitErr := s.conns.wait(ctx); err == nil {
		err = waitErr
	}
	s.kill()
	if closeErr := s.http.Close(); err == nil {
		err = closeErr
	}
	for _, t := range []*tracker{&s.conns, &s.refusals, &s.dials} {
		_ = t.wait(context.Background())
	}
	s.transport.CloseIdleConnections()
	return err
}

// buffer takes one out of the pool; it goes back with s.buffers.Put.
func (s *Server) buffer() *[]byte {
	if buf, ok := s.buffers.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, bufferBytes)
	return &buf
}

// handle is every request's entry: who, then what.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	rec := &record{method: r.Method, start: s.cfg.Clock.Now()}
	// Deferred, because an exchange cut in the middle ends in a panic.
	defer s.logRequest(rec)
	// For what the proxy answers itself: net/http flushes it after the handler,
	// for as long as the client likes.
	_ = http.NewResponseController(w).SetWriteDeadline(deadline(s.cfg.IdleTimeout))
	switch {
	case !s.authorized(r):
		w.Header().Set("Proxy-Authenticate", challenge)
		// Whoever shows no credentials keeps no connection: idle ones would take the places of those who do.
		w.Header().Set("Connection", "close")
		s.refuse(w, r, rec, failure{http.StatusProxyAuthRequired, "http_request_denied", "proxy authentication required"})
	case r.Method == http.MethodConnect:
		s.connect(w, r, rec)
	default:
		s.forward(w, r, rec)
	}
}

// dial bounds the configured Dial and ties it to the server's life: net/http
// lets a dial go on after the request that wanted it was given up.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.dials.add(0)
	defer s.dials.done()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(s.killed, cancel)()
	return s.cfg.Dial(ctx, network, address)
}
