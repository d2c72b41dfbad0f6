package session

import (
	"cmp"
	"context"
	"errors"
	"net"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// maxInFlight bounds the calls on one connection, those that nobody waits for any more included.
const maxInFlight = 64

// Link is one connection.
type Link struct {
	host  *Host
	api   API
	slots chan struct{}
	// suspect is told when a call was given up: the host may be silent.
	suspect chan struct{}
	// life ends with the connection, or its host; the cause is why. end closes the connection; the first reason is kept.
	life context.Context //nolint:containedctx // it is the connection's
	end  context.CancelCauseFunc
}

var errClosed = errors.New("the connection is closed")

// oneConn is a dialer of a connection that is there already.
type oneConn struct{ net.Conn }

func (d oneConn) Dial() (net.Conn, error) { return d.Conn, nil }

// open speaks to the daemon at the other end of conn. It blocks until that has answered, or ctx has ended; conn is closed
// unless it succeeds. The caller has entered the host.
func (h *Host) open(ctx context.Context, conn net.Conn) (*Link, error) {
	l := &Link{host: h, slots: make(chan struct{}, maxInFlight), suspect: make(chan struct{}, 1)}
	l.life, l.end = context.WithCancelCause(h.ctx)
	// Closing may take a while where the other side is silent; whoever waits for an answer must not wait for that.
	h.wg.Go(func() {
		<-l.life.Done()
		_ = conn.Close()
	})
	speak := h.opts.Speak
	if speak == nil {
		speak = Client
	}
	stop := context.AfterFunc(ctx, func() { l.end(context.Cause(ctx)) })
	var err error
	f := newFramed(conn, l.end)
	l.api, err = speak(f)
	f.proceed()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.end(err)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return l, nil
}

// Client begins to speak through the client library. It blocks until the daemon has answered.
func Client(conn net.Conn) (API, error) {
	c := libvirt.NewWithDialer(oneConn{conn})
	return c, c.Connect()
}

// Close ends everything that waits for an answer. It does not block.
func (l *Link) Close() error {
	l.end(errClosed)
	return nil
}

// lost is what a call under way returns when the connection has ended.
func (l *Link) lost() error { return &lostError{context.Cause(l.life)} }

func (l *Link) alive() bool { return l.life.Err() == nil }

// on runs one call. It returns when that has been answered, ctx or the connection has ended.
func on[T any](ctx context.Context, l *Link, f func(API) (T, error)) (T, error) {
	var zero T
	select {
	case l.slots <- struct{}{}:
	case <-l.life.Done():
		return zero, l.lost()
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
	if ctx.Err() != nil { // both were ready: what comes too late is not sent
		<-l.slots
		return zero, context.Cause(ctx)
	}
	type answer struct {
		v   T
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() { <-l.slots }()
		if over(ctx) {
			answered <- answer{err: cmp.Or(context.Cause(ctx), context.DeadlineExceeded)}
			return
		}
		v, err := f(l.api)
		answered <- answer{v, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil && !answeredByDaemon(a.err) && !l.alive() {
			return zero, l.lost() // what the library says then is about itself
		}
		return a.v, a.err
	case <-l.life.Done():
		return zero, l.lost()
	case <-ctx.Done():
		select {
		case l.suspect <- struct{}{}:
		default:
		}
		return zero, context.Cause(ctx)
	}
}

// over reports whether the time of ctx is over. A process that was paused, or a machine that slept, may come here before the
// timer that says so.
func over(ctx context.Context) bool {
	deadline, limited := ctx.Deadline()
	return ctx.Err() != nil || limited && !time.Now().Before(deadline)
}

func answeredByDaemon(err error) bool {
	_, ok := errors.AsType[libvirt.Error](err)
	return ok
}

// lostError says that the connection ended while a call was under way: it may have taken effect.
type lostError struct{ err error }

func (e *lostError) Error() string { return "the connection was lost" }
func (e *lostError) Unwrap() error { return e.err }

// openingError says that a new connection could not be made one to libvirt.
type openingError struct{ err error }

func (e *openingError) Error() string { return "libvirt's opening: " + e.err.Error() }
func (e *openingError) Unwrap() error { return e.err }

// Unopened reports whether err says that what a connection led to did not come to speak libvirt's protocol. A refusal in it is
// none of those.
func Unopened(err error) bool {
	_, ok := errors.AsType[*openingError](err)
	return ok && !answeredByDaemon(err)
}

// Lost reports whether err says that a connection ended under a call.
func Lost(err error) bool {
	_, ok := errors.AsType[*lostError](err)
	return ok || errors.Is(err, errClosed)
}
