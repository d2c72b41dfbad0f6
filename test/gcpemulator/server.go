package gcpemulator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is an emulator that listens.
type Server struct {
	*Emulator
	// URL is what option.WithEndpoint wants for cloud.google.com/go/compute; for google.golang.org/api/compute/v1 it is
	// that and "/compute/v1/".
	URL    string
	server *http.Server
	conns  sync.WaitGroup
	served chan error
	close  func() error
}

// Listen serves the emulator on address, "127.0.0.1:0" for any port of the loopback.
func (e *Emulator) Listen(ctx context.Context, address string) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{Emulator: e, URL: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: e, ConnState: s.count}
	s.close = sync.OnceValue(s.shut)
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// count keeps track of connections. All are counted in by the time Serve returns.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.conns.Done()
	default:
	}
}

// Close stops listening, breaks off calls under way, those that hang or are held included, and returns when all have
// ended. What they have done stays.
func (s *Server) Close() error { return s.close() }

func (s *Server) shut() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.conns.Wait()
	return err
}
