package control_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
)

// fake records what it is asked for.
type fake struct {
	mu    sync.Mutex
	asked []string
	err   error
	block bool
}

func (f *fake) do(ctx context.Context, what string) error {
	f.mu.Lock()
	f.asked = append(f.asked, what)
	f.mu.Unlock()
	if f.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func (f *fake) Stop(ctx context.Context) error   { return f.do(ctx, "stop") }
func (f *fake) Kill(ctx context.Context) error   { return f.do(ctx, "kill") }
func (f *fake) Start(ctx context.Context) error  { return f.do(ctx, "start") }
func (f *fake) Pause(ctx context.Context) error  { return f.do(ctx, "pause") }
func (f *fake) Resume(ctx context.Context) error { return f.do(ctx, "resume") }

// serve serves components and returns a client and the socket; the server ends with the test, without an error.
func serve(t *testing.T, components map[string]control.Component) (control.Client, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- control.Serve(ctx, l, components) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	t.Setenv(control.EnvSocket, socket)
	c, err := control.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return c, socket
}

func TestEveryVerbReachesItsComponent(t *testing.T) {
	kubelet, other := &fake{}, &fake{}
	c, _ := serve(t, map[string]control.Component{"kubelet": kubelet, "other": other})
	for _, do := range []func(context.Context, string) error{c.Stop, c.Start, c.Pause, c.Resume, c.Kill, c.Start} {
		if err := do(t.Context(), "kubelet"); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"stop", "start", "pause", "resume", "kill", "start"}; !slices.Equal(kubelet.asked, want) {
		t.Errorf("kubelet was asked %v, want %v", kubelet.asked, want)
	}
	if len(other.asked) > 0 {
		t.Errorf("other was asked %v", other.asked)
	}
}

func TestErrorsReachTheClient(t *testing.T) {
	c, _ := serve(t, map[string]control.Component{"kubelet": &fake{err: errors.New("not\nrunning")}})
	if err := c.Stop(t.Context(), "kubelet"); err == nil || err.Error() != "stop kubelet: not; running" {
		t.Errorf("got %v", err)
	}
	if err := c.Kill(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), `no component "nobody"`) {
		t.Errorf("got %v", err)
	}
}

func TestAConnectionTakesSeveralRequests(t *testing.T) {
	_, socket := serve(t, map[string]control.Component{"kubelet": &fake{}})
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("stop kubelet\nburn kubelet\n\nstart kubelet\n")); err != nil {
		t.Fatal(err)
	}
	want := "ok\nerror: no verb \"burn\": stop, kill, start, pause and resume are\nerror: want VERB COMPONENT, got \"\"\nok\n"
	got := make([]byte, len(want))
	for read := 0; read < len(got); {
		n, err := conn.Read(got[read:])
		if err != nil {
			t.Fatalf("after %q: %v", got[:read], err)
		}
		read += n
	}
	if string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAClientCanGiveUp(t *testing.T) {
	c, _ := serve(t, map[string]control.Component{"kubelet": &fake{block: true}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Stop(ctx, "kubelet"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want that the time was up", err)
	}
}

func TestNoClusterIsAnError(t *testing.T) {
	t.Setenv(control.EnvSocket, "")
	if _, err := control.FromEnv(); err == nil || !strings.Contains(err.Error(), control.EnvSocket) {
		t.Errorf("got %v, want an error that names %s", err, control.EnvSocket)
	}
}
