package forwardproxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// NewDialer returns a [DialFunc] that connects within timeout (0 = no bound of
// its own), leaves from exit when that is valid, and asks policy about every
// address right before it connects to it, so neither a name that resolves
// differently the next time nor a redirecting resolver gets around it.
//
// With an exit only addresses of its family are tried; a destination that has
// none is an error. The exit has to be an address of this host.
func NewDialer(policy DestinationPolicy, exit netip.Addr, timeout time.Duration) DialFunc {
	exit = exit.Unmap()
	d := &net.Dialer{
		Timeout: timeout,
		ControlContext: func(_ context.Context, _, address string, c syscall.RawConn) error {
			target, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%w: %q is not an address", ErrDestinationRefused, address)
			}
			if err := policy.Check(target.Addr()); err != nil {
				return err
			}
			if exit.IsValid() {
				return lateBind(c)
			}
			return nil
		},
	}
	if exit.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(exit, 0))
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if network == "tcp" && exit.IsValid() {
			// Named, so that only one kind of record is looked up.
			network = "tcp6"
			if exit.Is4() {
				network = "tcp4"
			}
		}
		return d.DialContext(ctx, network, address)
	}
}
