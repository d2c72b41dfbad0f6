package dial_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

// prompt bounds a Close: its own bound, and room for a busy machine.
const prompt = 3 * time.Second

func (r *rig) connected(f sshtest.Fault) net.Conn {
	r.t.Helper()
	r.SetFault(f)
	c, err := r.dial()
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func TestClose(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	c := r.connected(sshtest.Fault{})
	roundTrip(t, c, "hello")
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		waiting <- err
	}()
	for range 2 {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read that waited: %v", err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("a later read: %d, %v", n, err)
	}
	if n, err := c.Write([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("a later write: %d, %v", n, err)
	}
	r.nothingLeft()
}

func TestReadAfterCloseDropsWhatHadArrived(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	c := r.connected(sshtest.Fault{})
	if _, err := c.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %d, %v", n, err)
	}
}

func TestCloseWhileSilent(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	for _, at := range []sshtest.Point{sshtest.ToSocket, sshtest.ToClient} {
		c := r.connected(sshtest.Fault{At: at, Do: sshtest.Silence, After: 4})
		var work sync.WaitGroup
		work.Go(func() {
			// More than the buffers in between hold.
			if _, err := c.Write(bytes.Repeat([]byte("x"), 16<<20)); err == nil {
				t.Error("a silent host took everything")
			}
		})
		work.Go(func() { _, _ = io.Copy(io.Discard, c) })
		select {
		case <-time.After(300 * time.Millisecond): // so that both wait
		case <-t.Context().Done():
		}
		within(t, prompt, "Close", func() { _ = c.Close() })
		within(t, patience, "the end of reads and writes", work.Wait)
		r.nothingLeft()
	}
}

func TestTransportThatBreaks(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	c := r.connected(sshtest.Fault{At: sshtest.ToSocket, Do: sshtest.Cut, After: 10})
	if _, err := c.Write(bytes.Repeat([]byte("x"), 20)); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "a read", func() {
		if got, err := io.ReadAll(c); err != nil || len(got) > 10 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	})
	_ = c.Close()
	c = r.connected(sshtest.Fault{At: sshtest.ToClient, Do: sshtest.Cut, After: 10})
	if _, err := c.Write(bytes.Repeat([]byte("x"), 20)); err != nil {
		t.Fatal(err)
	}
	within(t, patience, "a read", func() {
		if got, err := io.ReadAll(c); err != nil || len(got) > 10 {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a read works after the end")
		}
	})
	within(t, patience, "a write", func() {
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("a write works after the end")
		}
	})
	_ = c.Close()
	r.nothingLeft()
}

func TestLibvirtThatCloses(t *testing.T) {
	path := t.TempDir() + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := newRig(t, sshtest.Options{Socket: path})
	c := r.connected(sshtest.Fault{})
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = far.Write([]byte("bye"))
	_ = far.Close()
	within(t, patience, "a read", func() {
		if got, err := io.ReadAll(c); err != nil || string(got) != "bye" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	_ = c.Close()
	r.nothingLeft()
}

func TestDeadlinesAreRefused(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	c := r.connected(sshtest.Fault{})
	defer c.Close()
	for _, set := range []func(time.Time) error{c.SetDeadline, c.SetReadDeadline, c.SetWriteDeadline} {
		if set(time.Now()) == nil {
			t.Error("a deadline was accepted")
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	var work sync.WaitGroup
	for i := range 16 {
		work.Go(func() {
			c, err := r.dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			text := []byte("connection " + strconv.Itoa(i))
			got := make([]byte, len(text))
			if _, err := c.Write(text); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, text) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	work.Wait()
	r.nothingLeft()
}

// A host that loses its power says nothing any more, not even that the connection is gone.
func TestKeepaliveEndsReads(t *testing.T) {
	r := newRig(t, sshtest.Options{})
	tcp, err := r.dialer(t.Context(), "tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	transport, channels, requests, err := ssh.NewClientConn(tcp, r.Address(), &ssh.ClientConfig{
		User: sshtest.DefaultUser, Auth: []ssh.AuthMethod{ssh.PublicKeys(r.key)}, HostKeyCallback: ssh.FixedHostKey(r.HostKey()),
	})
	if err != nil {
		t.Fatal(err)
	}
	const every = 100 * time.Millisecond
	c, err := dial.NewConn(tcp, ssh.NewClient(transport, channels, requests), dial.DefaultSocket, every)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 3 {
		<-time.After(every)
		roundTrip(t, c, "a host that answers keeps its connection")
	}
	r.SilenceAll()
	within(t, patience, "a read", func() {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a read of nothing")
		}
	})
	_ = c.Close()
	r.nothingLeft()
}
