package kvm

import (
	"context"
	"net"
	"net/http"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// Seams are what tests replace, those of other packages too. The zero value replaces nothing.
type Seams struct {
	// Dial and Speak reach the daemon of a host.
	Dial  func(HostConfig) func(ctx context.Context) (net.Conn, error)
	Speak func(HostConfig) func(net.Conn) (session.API, error)
	// Client downloads base images.
	Client *http.Client
}

// NewWithSeams is New for tests: what reaches hosts in another way has none of the checks that belong to dialing, be it of the
// host's key. Operators are built with New alone.
func NewWithSeams(opts provider.Options, s Seams) (*Provider, error) {
	c, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	return newProvider(opts, c, s), nil
}
