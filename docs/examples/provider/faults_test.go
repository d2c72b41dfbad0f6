package boxes_test

import (
	"net/http"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// strike makes requests suffer what f says until it is restored.
func (s *service) strike(f func(*http.Request) *fault) (restore func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.fault
	s.fault = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fault = before
	}
}

// once makes the next request of that method suffer f.
func (s *service) once(method string, f fault) {
	var used sync.Once
	s.strike(func(r *http.Request) (hit *fault) {
		if r.Method == method {
			used.Do(func() { hit = &f })
		}
		return hit
	})
}

// hold pauses the next request of that method on its way.
func (s *service) hold(method string) (reached <-chan struct{}, release func()) {
	arrived, released := make(chan struct{}), make(chan struct{})
	var once, done sync.Once
	s.strike(func(r *http.Request) (hit *fault) {
		if r.Method == method {
			once.Do(func() { hit = &fault{hold: released}; close(arrived) })
		}
		return hit
	})
	return arrived, func() { done.Do(func() { close(released) }) }
}

func (s *service) holdBoot() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = false
	}
}

// failLate breaks the next box: it is left as broken, or taken away by the service itself.
func (s *service) failLate(class error, leave bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !leave {
		s.dropped = true
		return
	}
	s.broken = map[error]string{provider.ErrQuotaExceeded: "rack_full", provider.ErrPermanent: "bad_request"}[class]
	if s.broken == "" {
		s.broken = "power"
	}
}

// placeByHand puts a box with somebody else's tags there.
func (s *service) placeByHand(id string) (untouched func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	placed := s.place(keyOf(id), map[string]any{"team": "somebody else's"}, 80)
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.boxes[keyOf(id)] == placed && placed.shown["status"] != "removing"
	}
}
