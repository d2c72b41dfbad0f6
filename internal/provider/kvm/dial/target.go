package dial

import (
	"context"
	"net"
	"time"
)

// DefaultSocket is where libvirt's daemon listens unless a Target says otherwise.
const DefaultSocket = "/var/run/libvirt/libvirt-sock"

// Target says how to reach the libvirt daemon of a host. It may be used by several goroutines at once.
type Target struct {
	// Address is "host", "host:port", "[v6]" or "[v6]:port"; the port is 22 when absent. Empty is the local socket, for
	// which the fields about SSH are not looked at.
	Address string
	// User is who logs in; needed with an Address.
	User string
	// KeyFile is the user's private key without a passphrase, absolute, at most 1 MiB. Where <KeyFile>-cert.pub is beside
	// it, the certificate in there is offered first.
	KeyFile string
	// KnownHostsFile is where the host's keys are on record, absolute, at most 4 MiB.
	KnownHostsFile string
	// Socket is libvirt's unix socket on that host; DefaultSocket when empty.
	Socket string
	// Dialer connects; a net.Dialer when nil. It must return when its context ends, and closing its connection must end
	// reads and writes that wait.
	Dialer func(ctx context.Context, network, address string) (net.Conn, error)
}

// Dial connects to libvirt's socket. It blocks until that is done, has failed or ctx ends, and sets no bound of its own.
// Afterwards ctx does not matter any more. Every error is an *Error; the one after ctx has ended also matches ctx.Err().
//
// Close of the connection takes a second at most, whatever the far side does, and ends reads and writes that wait; later
// ones fail with net.ErrClosed. Closing again does nothing. When libvirt closes its end, Read returns io.EOF; when the
// transport breaks, io.EOF too, after what had arrived. Over SSH there are no deadlines: SetDeadline and its kin return
// an error, so bound a wait by closing the connection.
func (t Target) Dial(ctx context.Context) (net.Conn, error) {
	if t.Socket == "" {
		t.Socket = DefaultSocket
	}
	if t.Dialer == nil {
		t.Dialer = (&net.Dialer{KeepAliveConfig: tcpKeepalive}).DialContext
	}
	if t.Address == "" {
		return t.local(ctx)
	}
	return t.remote(ctx)
}

// tcpKeepalive finds a host that went away during the handshake of a Dial without a deadline.
var tcpKeepalive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
