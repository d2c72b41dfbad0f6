package dial

import (
	"context"
	"io"
	"net"
)

// What the host is waited for, for messages.
const (
	connecting     = "connect"
	shakingHands   = "shake hands by SSH"
	authenticating = "authenticate the user"
	opening        = "open libvirt's socket"
)

// remote connects to the socket on the far side of an SSH connection.
func (t Target) remote(ctx context.Context) (net.Conn, error) {
	at, err := parseAddress(t.Address)
	if err != nil {
		return nil, failed(Unreachable, err, "host address %q is %v; mend it", t.Address, err)
	}
	if t.User == "" {
		return nil, failed(SSHAuthFailed, nil, "host %s: no user to log in as; name one", at)
	}
	keys, err := readKey(t.KeyFile)
	if err != nil {
		return nil, err
	}
	db, err := readKnownHosts(t.KnownHostsFile)
	if err != nil {
		return nil, err
	}
	tcp, err := t.connect(ctx, at)
	if err != nil {
		return nil, err
	}
	release := closeWith(ctx, tcp)
	s := &session{target: t, record: recordOf(db, t.KnownHostsFile, at), keys: keys, tcp: tcp}
	conn, err := s.open()
	over := release()
	if err == nil && !over {
		return conn, nil
	}
	if conn != nil {
		_ = conn.Close()
	}
	if over && (err == nil || broken(err)) {
		return nil, ended(ctx, host(at), s.waitingFor())
	}
	return nil, s.explain(err)
}

// connect makes the TCP connection.
func (t Target) connect(ctx context.Context, at endpoint) (net.Conn, error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, host(at), connecting)
	}
	tcp, err := t.Dialer(ctx, "tcp", at.String())
	switch {
	case err == nil:
		return tcp, nil
	case ctx.Err() != nil:
		return nil, ended(ctx, host(at), connecting)
	case timedOut(err):
		return nil, late(err, host(at), connecting)
	}
	return nil, failed(Unreachable, err, "%s cannot be reached: %s; see the address, and that sshd listens there", host(at), reduced(err))
}

// closeWith closes c once ctx ends. That ends whatever waits for c. The release, to be called once, waits for a Close that has
// begun, and reports whether there was one.
func closeWith(ctx context.Context, c io.Closer) (release func() bool) {
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = c.Close()
	})
	return func() bool {
		if stop() {
			return false
		}
		<-done
		return true
	}
}

func host(at endpoint) string { return "host " + at.String() }
