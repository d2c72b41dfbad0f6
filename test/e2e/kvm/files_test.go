//go:build e2e

package kvm

import (
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// fileServer serves the guest's image. It can stop in the middle of it.
type fileServer struct {
	path, url string

	mu sync.Mutex
	// stalled, where not nil, keeps back all but the first quarter until it is closed.
	stalled chan struct{}
	started int
}

func (s *fileServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	s.started++
	stalled := s.stalled
	s.mu.Unlock()
	f, err := os.Open(s.path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	if stalled == nil {
		http.ServeContent(w, req, "", time.Time{}, f)
		return
	}
	info, err := f.Stat()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", itoa(info.Size()))
	_, _ = io.CopyN(w, f, info.Size()/4)
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
	select {
	case <-stalled:
		_, _ = io.Copy(w, f)
	case <-req.Context().Done():
	}
}

// stall makes downloads that begin from now on stop after a quarter, until free is called.
func (s *fileServer) stall() (free func()) {
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stalled == c {
			s.stalled = nil
			close(c)
		}
	}
}

func (s *fileServer) downloads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}
