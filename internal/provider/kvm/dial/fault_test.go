package dial_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

// stages are where a host can fall silent during a Dial, and what the message says it was to do.
var stages = map[sshtest.Point]string{
	sshtest.Accept:      "shake hands",
	sshtest.KeyExchange: "authenticate",
	sshtest.Auth:        "open libvirt's socket",
	sshtest.Channel:     "open libvirt's socket",
}

func TestDeadlineAtEachStage(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for at, doing := range stages {
		r.SetFault(sshtest.Fault{At: at, Do: sshtest.Silence})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c, err := r.target.Dial(ctx)
		cancel()
		if c != nil {
			t.Fatal("a connection to a silent host")
		}
		isFor(t, err, dial.Timeout, r.Address(), doing)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v is no DeadlineExceeded", err)
		}
		r.nothingLeft()
	}
}

func TestCancelAtEachStage(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for at, doing := range stages {
		r.SetFault(sshtest.Fault{At: at, Do: sshtest.Silence})
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(200*time.Millisecond, cancel)
		within(t, patience, "a cancelled Dial", func() {
			_, err := r.target.Dial(ctx)
			isFor(t, err, dial.Timeout, r.Address(), doing, "cancelled")
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v is no Canceled", err)
			}
		})
		timer.Stop()
		cancel()
		r.nothingLeft()
	}
}

func TestContextThatHasEnded(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.target.Dial(ctx)
	isFor(t, err, dial.Timeout)
	_, err = dial.Target{Socket: echo(t)}.Dial(ctx)
	isFor(t, err, dial.Timeout)
	r.untouched()
}

// Wherever the context ends, there is either a connection that works or nothing.
func TestContextThatEndsAnywhere(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*200*time.Microsecond)
		c, err := r.target.Dial(ctx)
		if err != nil {
			isFor(t, err, dial.Timeout)
		} else {
			<-ctx.Done()
			roundTrip(t, c, "the context does not matter any more")
			_ = c.Close()
		}
		cancel()
	}
	r.nothingLeft()
}

// blackhole dials nothing until its context ends.
func blackhole(ctx context.Context, network, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
}

func TestDialThatHangs(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	r.target.Dialer = blackhole
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := r.target.Dial(ctx)
	isFor(t, err, dial.Timeout, r.Address(), "connect")
	r.nothingLeft()
}

func TestUnreachable(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	dialer := r.target.Dialer
	refuse := func(err error) {
		r.target.Dialer = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Source: &net.TCPAddr{Port: time.Now().Nanosecond() % 65536}, Err: err}
		}
	}
	refuse(os.NewSyscallError("connect", syscall.EHOSTUNREACH))
	r.fails(dial.Unreachable, r.Address(), "no route to host")
	refuse(os.NewSyscallError("connect", syscall.ETIMEDOUT))
	r.fails(dial.Timeout, r.Address())
	refuse(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true})
	r.fails(dial.Unreachable, r.Address(), "DNS")
	refuse(&net.DNSError{Err: "read udp 10.0.0.1:4242->10.0.0.2:53: refused", Name: "x"})
	r.fails(dial.Unreachable, "DNS cannot be asked")
	refuse(&net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true})
	r.fails(dial.Timeout)
	r.target.Dialer = dialer
	r.target.Address = "no host"
	r.fails(dial.Unreachable, `"no host"`)
	r.target.Address = r.Address()
	r.Close()
	r.fails(dial.Unreachable, r.Address(), "connection refused")
	r.target.Dialer = nil
	r.fails(dial.Unreachable, r.Address(), "connection refused")
}

func TestHandshakeThatFails(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for _, f := range []sshtest.Fault{{At: sshtest.Accept, Do: sshtest.Cut}, {At: sshtest.Accept, Do: sshtest.Babble}, {At: sshtest.KeyExchange, Do: sshtest.Cut}} {
		r.SetFault(f)
		r.fails(dial.SSHHandshakeFailed, r.Address())
	}
}

func TestLibvirtUnreachable(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	r.target.Socket = "/some/socket"
	for f, says := range map[sshtest.Fault]string{
		{At: sshtest.Auth, Do: sshtest.Cut}:         "hung up",
		{At: sshtest.Channel, Do: sshtest.Cut}:      "hung up",
		{At: sshtest.Channel, Do: sshtest.Prohibit}: "AllowStreamLocalForwarding",
		{At: sshtest.Channel, Do: sshtest.Fail}:     r.target.Socket,
	} {
		r.SetFault(f)
		r.fails(dial.LibvirtUnreachable, r.Address(), says)
	}
	r.SetFault(sshtest.Fault{})
	r.Change(func(o *sshtest.Options) { o.Socket = filepath.Join(t.TempDir(), "gone") })
	r.fails(dial.LibvirtUnreachable, r.target.Socket)
}

func TestSocketThatIsAskedFor(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	r.works()
	r.target.Socket = "/run/other"
	r.works()
	if asked := r.Asked(); len(asked) != 2 || asked[0] != dial.DefaultSocket || asked[1] != "/run/other" {
		t.Errorf("asked for %q", asked)
	}
}

// A verdict on the host's key is told, also when the context ends with it.
func TestVerdictBeforeTheContext(t *testing.T) {
	r := newRig(t, sshtest.Options{HostKeys: []ssh.Signer{sshtest.NewKey(t, sshtest.RSA)}})
	r.know(line(r.Address(), sshtest.NewKey(t, sshtest.RSA).PublicKey()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	dialer := r.target.Dialer
	r.target.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dialer(ctx, network, address)
		return &cancelling{c, cancel}, err
	}
	_, err := r.target.Dial(ctx)
	isFor(t, err, dial.HostKeyMismatch)
	r.nothingLeft()
}

// cancelling cancels a context when it is closed, which the library does after a refusal.
type cancelling struct {
	net.Conn
	cancel func()
}

func (c *cancelling) Close() error {
	c.cancel()
	return c.Conn.Close()
}
