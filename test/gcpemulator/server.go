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
	// URL is the endpoint for option.WithEndpoint.
	URL    string
	server *http.Server
	calls  sync.WaitGroup
	served chan error
}

// Listen serves the emulator on address, "127.0.0.1:0" for any port of the loopback.
func (e *Emulator) Listen(ctx context.Context, address string) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{Emulator: e, URL: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.calls.Add(1)
		defer s.calls.Done()
		e.ServeHTTP(w, r)
	})}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Close stops listening, breaks off calls under way, those that hang or are held included, and returns when all have
// ended. What they have done stays.
func (s *Server) Close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.calls.Wait()
	return err
}
