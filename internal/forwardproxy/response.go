package forwardproxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// maxInterim bounds 1xx answers to one request, which are otherwise a way to
// answer for ever.
const maxInterim = 16

var errNotHTTP = errors.New("destination gave an answer that a proxy cannot relay")

// relayable refuses answers that mean something else on the client's side. 101
// would switch a connection whose Upgrade was stripped; 407 is the proxy's own
// question, and a destination that asks it would look like wrong credentials.
func relayable(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusSwitchingProtocols, http.StatusProxyAuthRequired:
		return errNotHTTP
	}
	return nil
}

// interimResponses passes 1xx answers on, except 100, which net/http sends to
// the client itself when the body is first read. The transport may call back
// when the request is already given up, hence stop.
type interimResponses struct {
	w       http.ResponseWriter
	idle    *idleWatch
	mu      sync.Mutex
	stopped bool
	count   int
}

func (i *interimResponses) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: i.got})
}

func (i *interimResponses) got(code int, fields textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.idle.touch()
	if i.count++; i.count > maxInterim {
		return errNotHTTP
	}
	if i.stopped || code == http.StatusContinue || code == http.StatusSwitchingProtocols {
		return nil
	}
	h := i.w.Header()
	interim := http.Header(fields).Clone()
	stripConnectionFields(interim)
	for name, values := range interim {
		h[name] = values
	}
	i.w.WriteHeader(code)
	// They are of that answer alone.
	clear(h)
	return nil
}

func (i *interimResponses) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

// relay streams the answer. Whatever arrives is flushed, because it may be all
// that comes for a while.
func (x *exchange) relay(resp *http.Response) {
	h := x.w.Header()
	copyResponseFields(h, resp.Header)
	for name := range announcedTrailers(resp.Trailer) {
		h.Add("Trailer", name)
	}
	if x.body != nil && !x.body.atEnd.Load() {
		// Answered early: the rest of the body must not be taken for a request.
		h.Set("Connection", "close")
	}
	x.rec.answer(resp.StatusCode)
	x.w.WriteHeader(resp.StatusCode)
	if resp.ContentLength < 0 && x.ctl.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	if err := x.copyBody(resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	for name, values := range resp.Trailer {
		if !forwardableTrailer(name) {
			continue
		}
		for _, v := range values {
			h.Add(http.TrailerPrefix+name, v)
		}
	}
}

func (x *exchange) copyBody(body io.Reader) error {
	buf := x.server.buffer()
	defer x.server.buffers.Put(buf)
	for {
		n, readErr := body.Read(*buf)
		if n > 0 {
			x.idle.touch()
			written, err := x.w.Write((*buf)[:n])
			x.rec.down += int64(written)
			if err != nil {
				return err
			}
		}
		if errors.Is(readErr, io.EOF) {
			return nil // the handler's return flushes
		}
		if readErr != nil {
			return readErr
		}
		if err := x.ctl.Flush(); err != nil {
			return err
		}
		x.idle.touch()
	}
}
