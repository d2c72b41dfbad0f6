package forwardproxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// answerTime is how long a client that was idle may take to receive why.
const answerTime = time.Second

var errTrace = failure{http.StatusMethodNotAllowed, "http_request_denied", "TRACE is not forwarded"}

// exchange is one request in absolute form on its way.
type exchange struct {
	server *Server
	w      http.ResponseWriter
	ctl    *http.ResponseController
	r      *http.Request
	rec    *record
	idle   *idleWatch
	body   *requestBody // nil when the request has none
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request, rec *record) {
	address, err := forwardTarget(r)
	if err != nil {
		s.refuse(w, r, rec, badRequest(err))
		return
	}
	rec.destination = address
	if r.Method == http.MethodTrace {
		// It would reflect fields to whoever can make a client send it.
		w.Header().Set("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, CONNECT")
		s.refuse(w, r, rec, errTrace)
		return
	}
	if lastHop(r) {
		s.leaveBody(w, r)
		w.Header()["Content-Length"] = []string{"0"}
		rec.answer(http.StatusOK)
		return
	}

	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.killed, func() { cancel(errShutdown) })()
	x := &exchange{server: s, w: w, ctl: http.NewResponseController(w), r: r, rec: rec}
	x.idle = watchIdle(s.cfg.Clock, s.cfg.IdleTimeout, func() {
		cancel(errIdle)
		x.stopReading()
		_ = x.ctl.SetWriteDeadline(deadline(answerTime))
	})
	// While the exchange runs the watch bounds it; the rest, which net/http
	// flushes after the handler, is bounded by a deadline again.
	_ = x.ctl.SetWriteDeadline(time.Time{})
	defer func() {
		x.idle.stop()
		_ = x.ctl.SetWriteDeadline(deadline(s.cfg.IdleTimeout))
	}()
	x.run(ctx)
}

// run sends the request and relays the answer. An answer that was begun and
// cannot be finished ends in a panic that net/http turns into a cut connection,
// the only way to tell the client that it is incomplete.
func (x *exchange) run(ctx context.Context) {
	interim := &interimResponses{w: x.w, idle: x.idle}
	out := x.outgoing(interim.trace(ctx))
	if x.body != nil {
		defer func() {
			x.body.end()
			x.rec.up = x.body.moved.Load()
		}()
		// Else net/http would swallow what is left of the body before an early
		// answer, while the transport reads it too.
		_ = x.ctl.EnableFullDuplex()
	}
	resp, err := x.server.transport.RoundTrip(out)
	interim.stop()
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		err = relayable(resp)
	}
	if err != nil {
		x.fail(ctx, err)
		return
	}
	x.relay(resp)
}

func (x *exchange) fail(ctx context.Context, err error) {
	f := classify(errors.Join(err, context.Cause(ctx)))
	switch {
	case errors.Is(err, errNotHTTP):
		f = failure{http.StatusBadGateway, "http_protocol_error", errNotHTTP.Error()}
	case x.r.Context().Err() != nil && !errors.Is(context.Cause(ctx), errIdle):
		x.rec.abandon()
		panic(http.ErrAbortHandler)
	case x.body != nil && x.body.failed.Load() && ctx.Err() == nil:
		f = failure{http.StatusBadRequest, "http_request_error", "request body cannot be read"}
	}
	if ctx.Err() != nil {
		// Its deadlines have been changed under net/http.
		x.w.Header().Set("Connection", "close")
	}
	x.server.refuse(x.w, x.r, x.rec, f)
}

// outgoing is the request as the destination gets it.
func (x *exchange) outgoing(ctx context.Context) *http.Request {
	r := x.r
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.Header = requestFields(r.Header)
	// After a final answer instead of 100 a transport still sends the body if it
	// means to keep the connection, and so would ask the client for it in vain.
	out.Close = boundToConnection(r.Header) || r.Header.Get("Expect") != ""
	out.Host = strings.TrimSuffix(r.Host, ":")
	out.URL.Opaque = rawPath(r)
	out.Trailer = announcedTrailers(r.Trailer)
	out.Body = nil
	if r.ContentLength != 0 && r.Body != http.NoBody {
		x.body = &requestBody{in: r.Body, idle: x.idle, unblock: x.stopReading, trailers: func() {
			for name := range out.Trailer {
				out.Trailer[name] = r.Trailer[name]
			}
		}}
		out.Body = x.body
	}
	return out
}

// stopReading makes a read of the client's body in progress return.
func (x *exchange) stopReading() { _ = x.ctl.SetReadDeadline(deadline(0)) }
