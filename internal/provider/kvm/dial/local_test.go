package dial_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
)

func TestLocal(t *testing.T) {
	c, err := dial.Target{Socket: echo(t)}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, c, "hello")
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a read works after Close")
	}
}

func TestLocalThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	_, err := dial.Target{Socket: path}.Dial(t.Context())
	isFor(t, err, dial.LibvirtUnreachable, path, "no such file")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	_, err = dial.Target{Socket: path}.Dial(t.Context())
	isFor(t, err, dial.LibvirtUnreachable, path, "refused")
	denied := func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrPermission }
	_, err = dial.Target{Socket: path, Dialer: denied}.Dial(t.Context())
	isFor(t, err, dial.LibvirtUnreachable, path)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = dial.Target{Dialer: blackhole}.Dial(ctx)
	isFor(t, err, dial.Timeout, dial.DefaultSocket)
}
