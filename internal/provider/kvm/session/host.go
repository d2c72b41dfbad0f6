package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/utils/clock"
	"libvirt.org/go/libvirtxml"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

const (
	// dialLimit bounds reaching a host: TCP, SSH and libvirt's own opening.
	dialLimit = 10 * time.Second
	// idle is how often a connection on which nothing was given up is asked whether it is alive, aliveLimit how long it may
	// take to answer.
	idle       = 15 * time.Second
	aliveLimit = 10 * time.Second
)

// Options are what a host is reached with.
type Options struct {
	// Dial opens a connection to the daemon's socket. It returns soon after its context has ended.
	Dial func(ctx context.Context) (net.Conn, error)
	// Speak begins to speak libvirt's protocol on a connection; nil is the client library. It is a seam for tests.
	Speak func(net.Conn) (API, error)
	// Name is what spans and log lines call the host.
	Name string
	// UUID, where set, is the one that the host must have.
	UUID string
	// Identified, where set, is told the host's UUID, in lower case, each time it was connected to; an error of its refuses
	// the host. It does not block.
	Identified func(uuid string) error
	Clock      Clock
	// Patience is how long a connection may take to say that it is alive, in real time; 10 s when zero.
	Patience time.Duration
	// Rest says for how long a failed dialing answers for those that would follow, 0 for not at all. It keeps a thousand
	// callers from trying a key a thousand times that the host refuses.
	Rest func(error) time.Duration
}

// Clock is what the package needs of one.
type Clock = clock.WithTicker

// Host is the daemon of one host. It connects when first called, again after its connection was lost, and is safe for
// concurrent use.
type Host struct {
	opts Options
	ctx  context.Context //nolint:containedctx // the life of the connections, which are no single caller's
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	link    *Link
	dialing *dialing
	// failed is the last dialing's error, which answers until then.
	failed error
	until  time.Time
}

// dialing is a connection that is being made for whoever waits for it.
type dialing struct {
	done chan struct{}
	link *Link
	err  error
}

// New does not connect.
func New(o Options) *Host {
	ctx, stop := context.WithCancelCause(context.Background())
	return &Host{opts: o, ctx: ctx, stop: stop}
}

// Close ends all connections and what waits for them, and returns when they are closed. The calls that were under way end
// soon after.
func (h *Host) Close() {
	h.stop(errClosed)
	h.mu.Lock()   // whoever begins something has begun it by now
	h.mu.Unlock() //nolint:staticcheck // nothing else is to be done meanwhile
	h.wg.Wait()
}

// enter lets Close wait until the caller calls leave. It reports whether the host is open.
func (h *Host) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}
	h.wg.Add(1)
	return true
}

func (h *Host) leave() { h.wg.Done() }

// MismatchError says that another host than the configured one has answered.
type MismatchError struct{ Want, Got string }

func (e *MismatchError) Error() string {
	return "another host answers at this address than hostUUID names (compare with virsh capabilities)"
}

// Call makes one call, named as in libvirt's protocol, on the host's shared connection. It returns when the daemon has
// answered or ctx has ended, whichever is first; then the call may still take effect.
func Call[T any](ctx context.Context, h *Host, name string, f func(API) (T, error)) (T, error) {
	ctx, span := start(ctx, h, name)
	v, err := call(ctx, h, f)
	finish(ctx, span, h.opts.Name, name, err)
	return v, err
}

func call[T any](ctx context.Context, h *Host, f func(API) (T, error)) (T, error) {
	l, err := h.connected(ctx)
	if err != nil {
		var zero T
		return zero, err
	}
	return on(ctx, l, f)
}

// connected returns the shared connection. A caller that gives up does not end the dialing, for others wait for it, too.
func (h *Host) connected(ctx context.Context) (*Link, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	h.mu.Lock()
	if h.link != nil && h.link.alive() {
		defer h.mu.Unlock()
		return h.link, nil
	}
	d := h.dialing
	if d == nil {
		if h.ctx.Err() != nil {
			h.mu.Unlock()
			return nil, errClosed
		}
		if h.failed != nil && h.opts.Clock.Now().Before(h.until) {
			defer h.mu.Unlock()
			return nil, h.failed
		}
		d = &dialing{done: make(chan struct{})}
		h.dialing = d
		// The span of the first who asks shows what dialing took.
		dctx, span := start(context.WithoutCancel(ctx), h, "dial")
		h.wg.Go(func() {
			h.dial(dctx, d)
			finish(dctx, span, h.opts.Name, "dial", d.err)
			close(d.done) // last: who waits may end the span that this one is in
		})
	}
	h.mu.Unlock()
	select {
	case <-d.done:
		return d.link, d.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *Host) dial(ctx context.Context, d *dialing) {
	link, err := h.reach(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dialing = nil
	if h.ctx.Err() != nil {
		err = errClosed // and so is the link
	}
	d.err, h.failed = err, err
	if err == nil {
		d.link, h.link = link, link
		h.wg.Go(func() { h.watch(link) })
	} else if h.opts.Rest != nil {
		h.until = h.opts.Clock.Now().Add(h.opts.Rest(err))
	}
}

// Open makes a connection that is the caller's alone, who has to close it. It ends with the host at the latest.
func (h *Host) Open(ctx context.Context) (*Link, error) {
	ctx, span := start(ctx, h, "dial")
	link, err := h.reach(ctx)
	finish(ctx, span, h.opts.Name, "dial", err)
	return link, err
}

// reach makes a connection.
func (h *Host) reach(ctx context.Context) (*Link, error) {
	if !h.enter() {
		return nil, errClosed
	}
	defer h.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, dialLimit, errTooLong)
	defer cancel()
	defer context.AfterFunc(h.ctx, cancel)()
	conn, err := h.opts.Dial(ctx)
	if err != nil {
		return nil, err
	}
	link, err := h.open(ctx, conn)
	if err != nil {
		return nil, &openingError{err}
	}
	if h.opts.UUID == "" && h.opts.Identified == nil {
		return link, nil
	}
	if err := h.identify(ctx, link); err != nil {
		link.end(err)
		return nil, err
	}
	return link, nil
}

var errTooLong = fmt.Errorf("no answer within %s: %w", dialLimit, context.DeadlineExceeded)

// identify compares the host's UUID.
func (h *Host) identify(ctx context.Context, link *Link) error {
	text, err := on(ctx, link, API.ConnectGetCapabilities)
	if err != nil {
		return &openingError{fmt.Errorf("reading the host's UUID: %w", err)}
	}
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(text); err != nil {
		return fmt.Errorf("reading the host's UUID: %w", err)
	}
	if h.opts.UUID != "" && !strings.EqualFold(caps.Host.UUID, h.opts.UUID) {
		return &MismatchError{Want: h.opts.UUID, Got: caps.Host.UUID}
	}
	if h.opts.Identified == nil {
		return nil
	}
	return h.opts.Identified(strings.ToLower(caps.Host.UUID))
}

// watch ends a connection that does not answer. It is asked in regular intervals, and when somebody has given up a call.
func (h *Host) watch(l *Link) {
	ticker := h.opts.Clock.NewTicker(idle)
	defer ticker.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-l.suspect:
		case <-ticker.C():
		}
		if err := h.ask(l); err != nil {
			l.end(fmt.Errorf("the host has stopped to answer: %w", err))
			return
		}
	}
}

var errSilent = errors.New("no answer to a keepalive")

func (h *Host) ask(l *Link) error {
	ctx, cancel := context.WithTimeoutCause(l.life, cmp.Or(h.opts.Patience, aliveLimit), errSilent)
	defer cancel()
	_, err := on(ctx, l, API.ConnectGetLibVersion)
	if answeredByDaemon(err) {
		return nil // a refusal is an answer
	}
	return err
}

// start begins the span of one call. A call that is in no trace, say of a health check, begins none.
func start(ctx context.Context, h *Host, name string) (context.Context, trace.Span) {
	if above := trace.SpanFromContext(ctx); !above.SpanContext().IsValid() {
		return ctx, above
	}
	return tracing.Start(ctx, "kvm."+name, attribute.String("kvm.host", h.opts.Name))
}

// On makes one call on a connection that is the caller's own, see Call.
func On[T any](ctx context.Context, l *Link, name string, f func(API) (T, error)) (T, error) {
	ctx, span := start(ctx, l.host, name)
	v, err := on(ctx, l, f)
	finish(ctx, span, l.host.opts.Name, name, err)
	return v, err
}
