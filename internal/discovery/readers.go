package discovery

import (
	"context"
	"sync"
	"time"
)

// readers bounds how many long lists are written at one time, and how many of them to one principal: those who do not read
// what they asked for keep the others from nothing.
type readers struct {
	all chan struct{}

	mu sync.Mutex
	of map[string]*readerShare
}

// readerShare is one principal's; it is kept while somebody uses it.
type readerShare struct {
	places chan struct{}
	users  int
}

func newReaders(most int) *readers {
	return &readers{all: make(chan struct{}, most), of: map[string]*readerShare{}}
}

// enter waits for a place for up to patience. It is false when there was none, or ctx ended; otherwise leave gives it back.
func (r *readers) enter(ctx context.Context, principal string, patience time.Duration) (leave func(), ok bool) {
	share := r.share(principal)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for i, places := range []chan struct{}{share.places, r.all} {
		select {
		case places <- struct{}{}:
			continue
		default:
		}
		select {
		case places <- struct{}{}:
			continue
		case <-ctx.Done():
		case <-timer.C:
		}
		if i > 0 {
			<-share.places
		}
		r.done(principal, share)
		return nil, false
	}
	return func() {
		<-r.all
		<-share.places
		r.done(principal, share)
	}, true
}

func (r *readers) share(principal string) *readerShare {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of[principal]
	if s == nil {
		s = &readerShare{places: make(chan struct{}, max(1, cap(r.all)/2))}
		r.of[principal] = s
	}
	s.users++
	return s
}

func (r *readers) done(principal string, s *readerShare) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(r.of, principal)
	}
}
