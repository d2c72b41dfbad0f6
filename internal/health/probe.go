package health

import (
	"context"
	"net"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Prober makes one probe.
type Prober interface {
	// Probe blocks until the probe ended: at the latest when its timeout passes or ctx ends.
	Probe(ctx context.Context, t Target) Result
}

// Target is what one probe goes through and to.
type Target struct {
	// Key and Due are for those who observe probes; they do not influence them. Due is when the probe should have begun.
	Key types.NamespacedName
	Due time.Time
	// Endpoint is the proxy, Credentials what it asks for, if anything.
	Endpoint    fleet.Endpoint
	Credentials *provider.Credentials
	// External: the endpoint was named by whoever wrote the Proxy, so the prober's DialPolicy applies to it.
	External bool
	Probe    v1alpha1.Probe
}

// TargetOf returns the probe target that p describes.
func TargetOf(p *fleet.Proxy) Target {
	return Target{
		Key:         p.Key,
		Endpoint:    p.Endpoint,
		Credentials: p.Credentials,
		External:    p.Mode == v1alpha1.ModeExternal,
		Probe:       p.Probe,
	}
}

// Result is the outcome of one probe.
type Result struct {
	OK bool
	// Reason is one of the reasons of the Healthy condition.
	Reason string
	// Message is the same for the same outcome, free of secrets, valid UTF-8 and at most MaxMessageBytes long.
	Message string
	// Latency is how long the whole probe took.
	Latency time.Duration
	// TargetRefused: the proxy forwarded and the target answered 401, 403 or 429. It is a failure, but one that says
	// more about the target than about the proxy.
	TargetRefused bool
	// Inconclusive: the probe was interrupted or this process ran out of descriptors. It says nothing about the proxy.
	Inconclusive bool
}

// ProberOptions configure a TunnelProber. The zero value is usable.
type ProberOptions struct {
	// DialPolicy refuses addresses of External endpoints before they are dialled; nil refuses none. It is asked about
	// the very address that is going to be dialled, after name resolution. Its errors appear in conditions.
	DialPolicy func(netip.Addr) error
	// Resolver of endpoint host names; nil is the system's.
	Resolver *net.Resolver
	// Clock measures latencies; nil is the real one. Timeouts always pass in real time.
	Clock clock.PassiveClock
}

// TunnelProber probes over real connections: a new one each time, always through the given proxy, whatever the proxy
// variables of the environment say.
type TunnelProber struct {
	policy   func(netip.Addr) error
	resolver *net.Resolver
	clock    clock.PassiveClock
	roots    rootsCache
}

var _ Prober = (*TunnelProber)(nil)

// NewProber returns a prober.
func NewProber(o ProberOptions) *TunnelProber {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &TunnelProber{policy: o.DialPolicy, resolver: o.Resolver, clock: o.Clock}
}

// Probe implements Prober. The connection is closed when it returns.
func (p *TunnelProber) Probe(ctx context.Context, t Target) Result {
	begin := p.clock.Now()
	status, failed := p.probe(ctx, t)
	r := Result{OK: true, Reason: v1alpha1.ReasonProbeSucceeded, Message: answered(status)}
	if failed != nil {
		r = Result{
			Reason:        failed.reason,
			Message:       failed.message,
			TargetRefused: failed.targetRefused,
			Inconclusive:  failed.inconclusive,
		}
	}
	r.Message = clean(r.Message)
	r.Latency = p.clock.Since(begin)
	return r
}

func (p *TunnelProber) probe(parent context.Context, t Target) (status int, failed *failure) {
	a, err := parseAim(t.Probe.URL)
	if err != nil {
		// Not wrapped: the URL's query may hold a token.
		return 0, &failure{reason: v1alpha1.ReasonBadResponse, message: "the health check's url cannot be used"}
	}
	timeout := t.Probe.Timeout
	if timeout <= 0 {
		timeout = v1alpha1.DefaultProbeTimeout
	}
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	conn, err := p.dial(ctx, t)
	if err != nil {
		return 0, dialFailure(parent, t.Endpoint, err)
	}
	defer func() { _ = conn.Close() }()
	// The deadline of the socket ends everything that follows without a goroutine that waits for it.
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, dialFailure(parent, t.Endpoint, err)
	}
	defer interruptWith(parent, conn)()

	x := &exchange{conn: conn, aim: a, target: t, roots: &p.roots, now: p.clock.Now}
	status, failed = x.run()
	if failed != nil && parent.Err() != nil {
		return 0, interrupted()
	}
	return status, failed
}

// interruptWith makes conn fail once ctx ends. The returned function undoes that; nothing is left when it returned.
func interruptWith(ctx context.Context, conn net.Conn) (undo func()) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = conn.SetDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-done
		}
	}
}
