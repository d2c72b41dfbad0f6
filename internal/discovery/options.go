package discovery

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// Defaults of Options.
const (
	DefaultBindAddress       = ":8090"
	DefaultTTL               = 5 * time.Minute
	DefaultMaxTTL            = time.Hour
	DefaultMaxConnections    = 4096
	DefaultReadHeaderTimeout = 5 * time.Second
	DefaultReadTimeout       = 15 * time.Second
	DefaultWriteTimeout      = time.Minute
	DefaultIdleTimeout       = 2 * time.Minute
	DefaultShutdownTimeout   = 5 * time.Second
)

// maxHeaderBytes bounds the request line and the headers; net/http answers 431 beyond it.
const maxHeaderBytes = 32 << 10

// Recorder takes in what metrics show of requests. Its methods must not block.
type Recorder interface {
	// LeaseRequest is told of every request for a lease: how it ended, one of the Outcome constants, whether it was ready to
	// wait for a proxy, and how long it took until the answer was known.
	LeaseRequest(outcome string, waits bool, took time.Duration)
	// NoMatch is told what kept most of the proxies back that a request with OutcomeNoMatch would have had: one of the Cause
	// constants.
	NoMatch(cause string)
	// Request is told of every request: the pattern of its route, UnmatchedRoute where there is none, the status of its
	// answer and how long it took.
	Request(route string, status int, took time.Duration)
	// HandshakeFailed is told of every client with which TLS does not come about: one of connlimit.HandshakeReasons.
	HandshakeFailed(reason string)
}

// UnmatchedRoute stands for a request that no route is for.
const UnmatchedRoute = "unmatched"

// What keeps proxies from being leased.
const (
	// CauseNoProxy: no proxy matches namespace and selector.
	CauseNoProxy = "no_proxy"
	// CauseUnavailable: they are offered to nobody, see fleet.Withheld.
	CauseUnavailable = "unavailable"
	CauseAtCapacity  = "at_capacity"
	CauseCooldown    = "cooldown"
)

// The outcomes of a request for a lease.
const (
	OutcomeGranted    = "granted"
	OutcomeNoMatch    = "no_match"
	OutcomeInvalid    = "invalid"
	OutcomeOverloaded = "overloaded"
	OutcomeNotLeader  = "not_leader"
	OutcomeGone       = "client_gone"
)

// Options configure a Server. Zero values stand for the defaults.
type Options struct {
	// BindAddress is host:port to listen on; port 0 takes any free one, see Server.Addr.
	BindAddress string
	// Token is what clients send as bearer to be the default principal; without it and without Tokens the API is open and
	// gives out no credentials.
	Token string
	// Tokens are further principals; it may be nil.
	Tokens Tokens
	// RequireAuth makes New fail when there is no token.
	RequireAuth bool

	// Fleet and Ledger are required.
	Fleet  *fleet.Store
	Ledger *lease.Ledger
	// Leading says whether this replica serves; the others answer not_leader. nil for always. It must not block.
	Leading func() bool
	// Metrics may be nil.
	Metrics Recorder
	Log     logr.Logger
	// Clock is required.
	Clock clock.PassiveClock

	// TTL is what a lease gets when the request names none, MaxTTL the most it may name. Whole seconds.
	TTL, MaxTTL time.Duration
	// Prefer decides when the request does not; lease.PreferLatency when empty.
	Prefer lease.Prefer

	// TLS has the API speak HTTPS, with its certificates; nil for plain HTTP. It is not changed.
	TLS *tls.Config

	// MaxConnections bounds the connections served at one time; further ones take the places of those that show no token
	// or are idle, or wait.
	MaxConnections int
	// ReadHeaderTimeout, ReadTimeout (header and body) and WriteTimeout bound one request, IdleTimeout the pause between
	// two on one connection, ShutdownTimeout the wait for requests in flight when the server stops; then they are cut off.
	ReadHeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout, ShutdownTimeout time.Duration
}

func (o *Options) complete() error {
	if o.Fleet == nil || o.Ledger == nil || o.Clock == nil {
		return errors.New("discovery: Fleet, Ledger and Clock are required")
	}
	if o.Token == "" && o.Tokens == nil && o.RequireAuth {
		return errors.New("discovery: authentication is required but no token is set (DISCOVERY_TOKEN or --token-file)")
	}
	if strings.ContainsFunc(o.Token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("discovery: the token may hold only visible ASCII characters (does it end in a newline?)")
	}
	defaulted(&o.BindAddress, DefaultBindAddress)
	defaulted(&o.TTL, DefaultTTL)
	defaulted(&o.MaxTTL, DefaultMaxTTL)
	defaulted(&o.Prefer, lease.PreferLatency)
	defaulted(&o.MaxConnections, DefaultMaxConnections)
	defaulted(&o.ReadHeaderTimeout, DefaultReadHeaderTimeout)
	defaulted(&o.ReadTimeout, DefaultReadTimeout)
	defaulted(&o.WriteTimeout, DefaultWriteTimeout)
	defaulted(&o.IdleTimeout, DefaultIdleTimeout)
	defaulted(&o.ShutdownTimeout, DefaultShutdownTimeout)
	switch {
	case o.TTL < time.Second || o.TTL > o.MaxTTL || o.TTL%time.Second != 0 || o.MaxTTL%time.Second != 0:
		return fmt.Errorf("discovery: the default lease TTL %v must be at least 1s and at most the maximum %v, in whole seconds", o.TTL, o.MaxTTL)
	case !o.Prefer.Valid():
		return fmt.Errorf("discovery: unknown lease preference %q", o.Prefer)
	case o.MaxConnections < 0:
		return fmt.Errorf("discovery: the maximum of connections %d must be positive", o.MaxConnections)
	case min(o.ReadHeaderTimeout, o.ReadTimeout, o.WriteTimeout, o.IdleTimeout, o.ShutdownTimeout) < 0:
		return errors.New("discovery: timeouts must be positive")
	}
	if o.Leading == nil {
		o.Leading = func() bool { return true }
	}
	if o.Metrics == nil {
		o.Metrics = discard{}
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	return nil
}

type discard struct{}

func (discard) LeaseRequest(string, bool, time.Duration) {}
func (discard) NoMatch(string)                           {}
func (discard) Request(string, int, time.Duration)       {}
func (discard) HandshakeFailed(string)                   {}

func defaulted[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
