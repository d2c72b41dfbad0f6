package forwardproxy

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// requestBody streams the client's body to the destination. It outlives nothing:
// net/http forbids reading a body after the handler has returned, and a
// transport may still try to.
type requestBody struct {
	in       io.ReadCloser
	idle     *idleWatch
	unblock  func() // makes a Read in progress return
	trailers func() // moves the trailer fields on, called once at the end
	moved    atomic.Int64
	atEnd    atomic.Bool
	failed   atomic.Bool

	closing sync.Once
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	if n > 0 {
		b.moved.Add(int64(n))
		b.idle.touch()
	}
	switch {
	case errors.Is(err, io.EOF):
		if !b.atEnd.Swap(true) {
			b.trailers()
		}
	case err != nil:
		b.failed.Store(true)
	}
	return n, err
}

// Close is called by the transport; the client's side is closed by end alone,
// when the exchange is over, because the transport may give up a body early.
func (b *requestBody) Close() error { return nil }

// end stops reading. What the client still sends is not waited for.
func (b *requestBody) end() {
	b.closing.Do(func() {
		if !b.atEnd.Load() {
			b.unblock()
		}
		_ = b.in.Close()
	})
}

// announcedTrailers returns the trailer fields that may be sent on, still without
// values, or nil.
func announcedTrailers(in http.Header) http.Header {
	var out http.Header
	for name := range in {
		if forwardableTrailer(name) {
			if out == nil {
				out = http.Header{}
			}
			out[name] = nil
		}
	}
	return out
}
