package forwardproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// DialFunc opens a connection to address ("host:port"); network is "tcp". It
// must return soon after ctx ends. An error that matches
// [ErrDestinationRefused] is answered with 403.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// AuthorizeFunc decides on a client's credentials; ok is false when there were
// none or they were malformed, and both strings are empty then. It is called
// once per request, concurrently, and must not block.
type AuthorizeFunc func(username, password string, ok bool) bool

// Defaults of the limits in [Config].
const (
	DefaultMaxHeaderBytes = 32 << 10
	DefaultHeaderTimeout  = 10 * time.Second
	DefaultIdleTimeout    = 60 * time.Second
	DefaultDialTimeout    = 10 * time.Second
	DefaultMaxConnections = 1024
)

// Bounds of the limits in [Config], both ends included.
const (
	minHeaderBytes, maxHeaderBytes   = 8 << 10, 1 << 20
	minHeaderTimeout                 = 50 * time.Millisecond
	maxHeaderTimeout                 = 5 * time.Minute
	minIdleTimeout, maxIdleTimeout   = 50 * time.Millisecond, 24 * time.Hour
	minDialTimeout, maxDialTimeout   = 50 * time.Millisecond, 5 * time.Minute
	minConnections, maxConnectionCap = 1, 1 << 16
)

// Config is what a [Server] needs. Its zero value is usable: everybody may use
// it, to reach public addresses only, within the default limits. A limit of 0
// means its default.
type Config struct {
	// Dial reaches destinations; nil means [NewDialer] with the zero
	// [DestinationPolicy] and no exit address.
	Dial DialFunc
	// Authorize checks Proxy-Authorization; nil means no authentication.
	Authorize AuthorizeFunc
	// AllowClients are the addresses that may connect; empty means any. Others
	// get a 403 and no request of theirs is read.
	AllowClients []netip.Prefix

	// MaxHeaderBytes bounds request line and header fields of one request,
	// 8 KiB to 1 MiB; more is answered with 431.
	MaxHeaderBytes int
	// HeaderTimeout bounds how long a client may take to send them, 50ms to 5m.
	HeaderTimeout time.Duration
	// IdleTimeout closes a tunnel, a forwarded exchange or a kept-alive
	// connection on which nothing moved in either direction for that long,
	// 50ms to 24h.
	IdleTimeout time.Duration
	// DialTimeout bounds name resolution and connecting together, 50ms to 5m.
	DialTimeout time.Duration
	// MaxConnections bounds client connections, tunnels included, 1 to 65536.
	// One beyond is answered with 503 at once instead of waiting: a crawler can
	// go on with another proxy.
	MaxConnections int

	// Clock measures idle time and durations; nil means the real one. Network
	// deadlines are always real time: the kernel knows no other.
	Clock clock.WithDelayedExecution
	// Log gets one V(1) line per request; the zero value discards.
	Log logr.Logger
}

// withDefaults fills in what is unset and checks the rest.
func (c Config) withDefaults() (Config, error) {
	c.MaxHeaderBytes = orDefault(c.MaxHeaderBytes, DefaultMaxHeaderBytes)
	c.HeaderTimeout = orDefault(c.HeaderTimeout, DefaultHeaderTimeout)
	c.IdleTimeout = orDefault(c.IdleTimeout, DefaultIdleTimeout)
	c.DialTimeout = orDefault(c.DialTimeout, DefaultDialTimeout)
	c.MaxConnections = orDefault(c.MaxConnections, DefaultMaxConnections)
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	for _, err := range []error{
		within("MaxHeaderBytes", c.MaxHeaderBytes, minHeaderBytes, maxHeaderBytes),
		within("HeaderTimeout", c.HeaderTimeout, minHeaderTimeout, maxHeaderTimeout),
		within("IdleTimeout", c.IdleTimeout, minIdleTimeout, maxIdleTimeout),
		within("DialTimeout", c.DialTimeout, minDialTimeout, maxDialTimeout),
		within("MaxConnections", c.MaxConnections, minConnections, maxConnectionCap),
		validPrefixes("AllowClients", c.AllowClients),
	} {
		if err != nil {
			return Config{}, err
		}
	}
	if c.Dial == nil {
		c.Dial = NewDialer(DestinationPolicy{}, netip.Addr{}, c.DialTimeout)
	}
	return c, nil
}

func orDefault[T int | time.Duration](value, fallback T) T {
	if value == 0 {
		return fallback
	}
	return value
}

func within[T int | time.Duration](field string, value, low, high T) error {
	if value < low || value > high {
		return fmt.Errorf("%s: %v is not within %v and %v", field, value, low, high)
	}
	return nil
}

func validPrefixes(field string, prefixes []netip.Prefix) error {
	for i, p := range prefixes {
		if !p.IsValid() {
			return fmt.Errorf("%s[%d]: %v is not a CIDR", field, i, p)
		}
	}
	return nil
}
