package discovery

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

// Server serves the API. It is a manager Runnable that runs on every replica.
type Server struct {
	o       Options
	auth    authenticator
	handler http.Handler
	lists   *readers

	started atomic.Bool
	limited atomic.Pointer[connlimit.Listener]
	// bound is closed when addr or bindErr is set.
	bound   chan struct{}
	addr    net.Addr
	bindErr error
}

// New returns a server that does not listen yet. It errors when an option is missing or out of bounds, and when
// authentication is required without a token.
func New(o Options) (*Server, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{o: o, auth: newAuthenticator(o.Token, o.Tokens), bound: make(chan struct{}), lists: newReaders(maxLists)}
	s.handler = s.recovered(s.measured(s.traced(s.logged(s.bounded(s.authenticated(s.routes()))))))
	return s, nil
}

// Handler returns the whole API with its middleware, without listener and time limits.
func (s *Server) Handler() http.Handler { return s.handler }

// NeedLeaderElection lets standbys serve too: they answer not_leader, so that a client never hangs on one.
func (s *Server) NeedLeaderElection() bool { return false }

// Connections returns how many connections the server holds. It does not block.
func (s *Server) Connections() int {
	if c := s.limited.Load(); c != nil {
		return c.Count()
	}
	return 0
}

// Addr returns the address that the server listens on. It blocks until there is one, Start failed, or ctx ended.
func (s *Server) Addr(ctx context.Context) (net.Addr, error) {
	select {
	case <-s.bound:
		return s.addr, s.bindErr
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Start listens and serves until ctx ends, then takes no more connections, lets requests in flight finish for up to
// Options.ShutdownTimeout, cuts off those that are not, and returns nil. It errors when it cannot listen, when serving
// fails, and when called twice.
func (s *Server) Start(ctx context.Context) error {
	if s.started.Swap(true) {
		return errors.New("discovery: started twice")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.o.BindAddress)
	if err != nil {
		s.bindErr = fmt.Errorf("discovery: listening on %s: %w", s.o.BindAddress, err)
		close(s.bound)
		return s.bindErr
	}
	s.addr = listener.Addr()
	close(s.bound)
	if !s.auth.required() {
		s.o.Log.Info("WARNING: the discovery API is open: no token is set, so everybody who reaches it can lease proxies. "+
			"Proxy credentials are not given out. Set DISCOVERY_TOKEN or --token-file to change both.", "address", s.addr.String())
	}
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: s.o.ReadHeaderTimeout,
		ReadTimeout:       s.o.ReadTimeout,
		WriteTimeout:      s.o.WriteTimeout,
		IdleTimeout:       s.o.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          log.New(logWriter{s.o.Log}, "", 0),
		// "OPTIONS *" goes through authentication like everything else.
		DisableGeneralOptionsHandler: true,
	}
	limited := connlimit.New(listener, connlimit.Options{Most: s.o.MaxConnections, TLS: s.o.TLS, HandshakeFailed: s.handshakeFailed})
	s.limited.Store(limited)
	server.ConnState, server.ConnContext = limited.State, limited.Context
	served := make(chan error, 1)
	go func() { served <- server.Serve(limited) }()
	select {
	case err := <-served:
		return fmt.Errorf("discovery: serving: %w", err)
	case <-ctx.Done():
	}
	err = s.drain(ctx, server, limited)
	<-served //nolint:errcheck // it only says that the server was shut down
	return err
}

// handshakeFailed tells of a client with which TLS does not come about. Strangers can make that happen at will.
func (s *Server) handshakeFailed(client net.Addr, reason string, err error) {
	s.o.Metrics.HandshakeFailed(reason)
	s.o.Log.V(1).Info("TLS handshake failed", "client", client.String(), "reason", reason, "error", err.Error())
}

// drain ends the server. A client that never sends its request to the end, or never reads its answer, is no fault of it.
func (s *Server) drain(ctx context.Context, server *http.Server, limited *connlimit.Listener) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.ShutdownTimeout)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		if n := limited.Busy(); n > 0 {
			s.o.Log.Info("requests cut off by the shutdown", "requests", n)
		}
		err = server.Close()
	}
	if err != nil {
		return fmt.Errorf("discovery: shutting down: %w", err)
	}
	return nil
}

// logWriter takes what net/http says about single connections.
type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("HTTP server", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
