package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
)

// send sends req through the slot's lease, on which the caller holds a place; the response's body holds another one until
// it is closed. again: the lease is of no use, and req may be sent through another one.
func (s *slot) send(req *http.Request) (resp *http.Response, again bool, err error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })
	var sent atomic.Bool
	out := req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	}))
	resp, err = s.http.RoundTrip(out)
	if err == nil {
		resp, err = refused(resp)
	}
	result := s.t.o.Classify(resp, err)
	if s.t.note(s, result) {
		// The next request must not get the same exit.
		select {
		case <-s.reported:
		case <-req.Context().Done():
		}
	}
	if err != nil {
		stop()
		cancel(nil)
		again = rewindable(req) && req.Context().Err() == nil && s.useless(req, err, sent.Load())
		return nil, again, s.explain(req, err)
	}
	s.t.mu.Lock()
	s.users++
	s.t.mu.Unlock()
	resp.Request = req
	resp.Body = s.body(resp, func() {
		stop()
		cancel(nil)
		s.t.put(s)
	})
	return resp, false, nil
}

// useless reports whether the slot cannot serve any request, while another could serve this one.
func (s *slot) useless(req *http.Request, err error, sent bool) bool {
	answered := errors.As(err, new(*ProxyError))
	switch {
	case sent && !answered && !repeatable(req):
		return false
	case s.lease.Err() != nil:
		return !s.closed()
	}
	return dead(req, err, sent)
}

func (s *slot) closed() bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	return s.t.closed
}

// refused makes errors of answers by which the proxy says that it is of no use.
func refused(resp *http.Response) (*http.Response, error) {
	if !byProxy(resp) {
		return resp, nil
	}
	e := proxyError(resp)
	if !e.useless() || (e.Status != http.StatusProxyAuthRequired && !ownProxyError(resp)) {
		return resp, nil
	}
	_ = resp.Body.Close()
	return nil, e
}

// explain says through which proxy err came, and why when the lease or the transport ended under the request.
func (s *slot) explain(req *http.Request, err error) error {
	if why := context.Cause(s.life); why != nil && req.Context().Err() == nil {
		err = why
	} else if why := s.lease.Err(); why != nil && req.Context().Err() == nil && !errors.Is(err, why) {
		err = fmt.Errorf("%w (%w)", why, err)
	}
	p := s.lease.Proxy()
	return fmt.Errorf("client: through proxy %s/%s: %w", p.Namespace, p.Name, err)
}

// body is a response's body that calls done once, when it is read to its end, fails, or is closed.
type body struct {
	io.ReadCloser
	s    *slot
	done func()
	// half: the end of one direction is not the end of the connection.
	half bool
}

// duplex is the body of a response that switched protocols.
type duplex struct {
	*body
	io.Writer
}

func (s *slot) body(resp *http.Response, done func()) io.ReadCloser {
	w, both := resp.Body.(io.Writer)
	b := &body{ReadCloser: resp.Body, s: s, done: sync.OnceFunc(done), half: both}
	if both {
		return duplex{b, w}
	}
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	if why := b.s.over(); why != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("client: cut off: %w", why)
	}
	if !b.half {
		b.done()
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	return err
}

// over says why nothing goes through the slot any more; nil while it does.
func (s *slot) over() error {
	if why := context.Cause(s.life); why != nil {
		return why
	}
	return s.lease.Err()
}
