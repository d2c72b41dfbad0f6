package health

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// refusedAddressError is the DialPolicy's answer on its way through the dialer.
type refusedAddressError struct{ cause error }

func (e *refusedAddressError) Error() string { return e.cause.Error() }

func (p *TunnelProber) dial(ctx context.Context, t Target) (net.Conn, error) {
	// A probe is too short for keep-alives.
	d := net.Dialer{KeepAlive: -1, Resolver: p.resolver}
	if t.External && p.policy != nil {
		// Runs after resolution and before connect, for each address that is tried: a name cannot change in between.
		d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return &refusedAddressError{cause: fmt.Errorf("the endpoint resolves to something that is not an address")}
			}
			if err := p.policy(ap.Addr().Unmap().WithZone("")); err != nil {
				return &refusedAddressError{cause: err}
			}
			return nil
		}
	}
	return d.DialContext(ctx, "tcp", t.Endpoint.Address())
}
