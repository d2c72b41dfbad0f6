package client

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	expired := time.After(enough)
	for !condition() {
		select {
		case <-ticker.C:
		case <-expired:
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func wantClosed(t testing.TB, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(enough):
		t.Fatalf("timed out waiting: %s", what)
	}
}

func wantIs(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error is %v, want %v", err, target)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answering serves one fixed answer.
func answering(t testing.TB, f http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// silent accepts connections and never answers; it returns its address.
func silent(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var mu sync.Mutex
	var open []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	return l.Addr().String()
}

func drain(body io.ReadCloser) {
	_, _ = io.Copy(io.Discard, body)
	_ = body.Close()
}

// fakeClock is the server's clock and the client's at once.
type fakeClock struct {
	*clocktesting.FakeClock
	// asleep counts the client's goroutines that wait for time to pass.
	asleep *atomic.Int32
}

func (c fakeClock) NewTimer(d time.Duration) timer {
	t := &fakeTimer{timer: c.FakeClock.NewTimer(d), asleep: c.asleep}
	c.asleep.Add(1)
	return t
}

type fakeTimer struct {
	timer
	once   sync.Once
	asleep *atomic.Int32
}

func (t *fakeTimer) Stop() bool {
	t.once.Do(func() { t.asleep.Add(-1) })
	return t.timer.Stop()
}

func (c fakeClock) AfterFunc(d time.Duration, f func()) func() bool {
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	return c.FakeClock.AfterFunc(d, func() { go f() }).Stop
}
