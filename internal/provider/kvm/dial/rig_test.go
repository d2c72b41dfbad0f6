package dial_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial/sshtest"
)

// patience bounds what a test waits for; nothing that works takes as long.
const patience = 10 * time.Second

// rig is a host with an echo behind libvirt's socket, and a Target that reaches it.
type rig struct {
	*sshtest.Server
	t      *testing.T
	target dial.Target
	key    ssh.Signer

	mu     sync.Mutex
	dialed []*counted
}

func newRig(t *testing.T, opts sshtest.Options) *rig {
	t.Helper()
	dir := t.TempDir()
	data, key := sshtest.NewKeyFile(t, sshtest.Ed25519, "")
	opts.Authorized = append(opts.Authorized, key.PublicKey())
	if opts.Socket == "" {
		opts.Socket = echo(t)
	}
	r := &rig{Server: sshtest.Start(t, opts), t: t, key: key}
	r.target = dial.Target{
		Address: r.Address(), User: sshtest.DefaultUser,
		KeyFile: filepath.Join(dir, "id"), KnownHostsFile: filepath.Join(dir, "known_hosts"),
		Dialer: r.dialer,
	}
	write(t, r.target.KeyFile, data)
	r.know(line(r.Address(), r.HostKey()))
	return r
}

// know replaces the known_hosts file.
func (r *rig) know(lines ...string) {
	r.t.Helper()
	write(r.t, r.target.KnownHostsFile, []byte(strings.Join(lines, "\n")+"\n"))
}

// counted is a connection that knows whether it was closed.
type counted struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (r *rig) dialer(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	counted := &counted{Conn: c, closed: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dialed = append(r.dialed, counted)
	return counted, nil
}

// nothingLeft checks that the client's sockets are closed, and that its goroutines have ended or are about to.
func (r *rig) nothingLeft() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.dialed {
		select {
		case <-c.closed:
		default:
			r.t.Error("a socket is left open")
		}
	}
	var left string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); runtime.Gosched() {
		if left = goroutines(); left == "" {
			return
		}
	}
	r.t.Errorf("goroutines are left:\n%s", left)
}

// goroutines returns those of clients.
func goroutines() string {
	buf := make([]byte, 4<<20)
	var left []string
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, by := range []string{"ssh.newClientTransport", "ssh.NewClient", "ssh.(*Client)", "dial.newConn", "dial.(*conn)", "dial.closeWith"} {
			if _, after, ok := strings.Cut(g, "created by "); ok && strings.Contains(after, by) {
				left = append(left, g)
				break
			}
		}
	}
	return strings.Join(left, "\n\n")
}

// dial dials, with a bound.
func (r *rig) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	return r.target.Dial(ctx)
}

// works checks that the target leads to the socket.
func (r *rig) works() {
	r.t.Helper()
	c, err := r.dial()
	if err != nil {
		r.t.Fatal(err)
	}
	roundTrip(r.t, c, "hello")
	if err := c.Close(); err != nil {
		r.t.Error(err)
	}
	r.nothingLeft()
}

// fails checks that the target fails for a reason, twice in the same words, and returns the error.
func (r *rig) fails(reason string, names ...string) *dial.Error {
	r.t.Helper()
	first := r.failsOnce(reason, names...)
	if second := r.failsOnce(reason, names...); first.Error() != second.Error() {
		r.t.Errorf("the message changes:\n%v\n%v", first, second)
	}
	r.nothingLeft()
	return first
}

func (r *rig) failsOnce(reason string, names ...string) *dial.Error {
	r.t.Helper()
	c, err := r.dial()
	if c != nil {
		r.t.Fatal("a connection where there should be none")
	}
	return isFor(r.t, err, reason, names...)
}

// isFor checks err's reason and that its message has the names.
func isFor(t *testing.T, err error, reason string, names ...string) *dial.Error {
	t.Helper()
	e, ok := errors.AsType[*dial.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	t.Log(e.Reason + ": " + e.Error())
	if e.Reason != reason {
		t.Fatalf("got %s, want %s: %v", e.Reason, reason, err)
	}
	for _, name := range names {
		if !strings.Contains(e.Error(), name) {
			t.Errorf("%q is not in the message: %v", name, err)
		}
	}
	if len(e.Error()) > 512 || strings.ContainsAny(e.Error(), "\r\n") {
		t.Errorf("the message does not fit into a condition: %v", err)
	}
	return e
}

func roundTrip(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v", got, err)
	}
}

// echo listens on a unix socket and sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	return path
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	// By a rename, as rotations do.
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// line is a line of a known_hosts file.
func line(address string, key ssh.PublicKey) string { return knownhosts.Line([]string{address}, key) }

// within checks that do returns in time.
func within(t *testing.T, d time.Duration, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s takes too long", what)
	}
}
