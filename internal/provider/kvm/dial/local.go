package dial

import (
	"context"
	"net"
	"sync"
)

// local connects to the socket on this host.
func (t Target) local(ctx context.Context) (net.Conn, error) {
	whom := "libvirt at " + t.Socket
	if ctx.Err() != nil {
		return nil, ended(ctx, whom, connecting)
	}
	conn, err := t.Dialer(ctx, "unix", t.Socket)
	switch {
	case err == nil:
		return &localConn{Conn: conn}, nil
	case ctx.Err() != nil:
		return nil, ended(ctx, whom, connecting)
	case timedOut(err):
		return nil, late(err, whom, connecting)
	}
	return nil, failed(LibvirtUnreachable, err, "%s cannot be reached: %s; see that libvirtd runs and that the operator may use its socket", whom, reduced(err))
}

// localConn may be closed twice. It has deadlines.
type localConn struct {
	net.Conn
	once sync.Once
}

// Close does not block. It returns the error of the first call once.
func (c *localConn) Close() (err error) {
	c.once.Do(func() { err = c.Conn.Close() })
	return err
}
