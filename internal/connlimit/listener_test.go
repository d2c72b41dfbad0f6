package connlimit

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// lobby is a listener whose connections the test makes.
type lobby struct {
	come  chan net.Conn
	ended context.Context
	end   context.CancelFunc
}

func (l lobby) Accept() (net.Conn, error) {
	select {
	case conn := <-l.come:
		return conn, nil
	case <-l.ended.Done():
		return nil, net.ErrClosed
	}
}

func (l lobby) Close() error   { l.end(); return nil }
func (l lobby) Addr() net.Addr { return nil }

// newLobby has room for most connections. Those that come are accepted one after the other; next returns the next that is.
func newLobby(t *testing.T, most int) (c *Listener, come func() (client net.Conn), next func() *Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := lobby{make(chan net.Conn), ctx, cancel}
	c = New(l, Options{Most: most})
	got := make(chan *Conn)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for conn, err := c.Accept(); err == nil; conn, err = c.Accept() {
			got <- conn.(*Conn)
		}
	}()
	come = func() net.Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close(); server.Close() })
		l.come <- server
		return client
	}
	next = func() *Conn {
		t.Helper()
		select {
		case p := <-got:
			return p
		case <-time.After(20 * time.Second):
			t.Fatal("nobody is accepted")
			return nil
		}
	}
	t.Cleanup(func() {
		c.Close()
		<-ended
	})
	return c, come, next
}

// aged lets p be of that age; one below 0 keeps it from becoming old.
func (p *Conn) aged(age time.Duration) {
	p.among.mu.Lock()
	p.since = time.Now().Add(-age)
	p.among.mu.Unlock()
	p.among.signal()
}

func cut(client net.Conn) bool {
	_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := client.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func TestAPlaceThatBecomesFreeIsTakenAtOnce(t *testing.T) {
	for name, free := range map[string]func(*Conn){
		"it is closed":     func(p *Conn) { p.Close() },
		"it proves itself": func(p *Conn) { p.Prove() },
	} {
		t.Run(name, func(t *testing.T) {
			_, come, next := newLobby(t, 2)
			come()
			first := next()
			first.aged(-time.Hour)
			come()
			free(first)
			next()
		})
	}
}

func TestCloseEndsTheWaitForAPlace(t *testing.T) {
	c, come, next := newLobby(t, 2)
	come()
	next().aged(-time.Hour)
	waiting := come()
	c.Close()
	if !cut(waiting) {
		t.Error("the one that waited is still there")
	}
}

func TestWhoGoesForANewConnection(t *testing.T) {
	c, come, next := newLobby(t, 4) // two of them unproven
	arrive := func() (*Conn, net.Conn) {
		client := come()
		p := next()
		p.aged(-time.Hour)
		return p, client
	}
	a, aClient := arrive()
	a.Prove()
	b, bClient := arrive()
	b.Prove()
	for _, p := range []*Conn{a, b, b, a} { // b will have been idle for longer
		c.State(p, http.StateActive)
		c.State(p, http.StateIdle)
	}
	old, oldClient := arrive()
	second, secondClient := arrive()

	// There is no room among the unproven: one of them has to go, although there are idle ones, and none before its time.
	if ok, goes, wait := c.place(&Conn{among: c}); ok || goes != nil || wait < provingTime {
		t.Errorf("%v, %v, %s", ok, goes, wait)
	}
	old.aged(2 * provingTime)
	third, thirdClient := arrive()
	if !cut(oldClient) {
		t.Error("the oldest unproven one is still there")
	}
	// There is room among them, but every place is taken: where nobody unproven is old, the longest idle one goes.
	second.Prove()
	c.State(second, http.StateActive)
	fourth, _ := arrive()
	if !cut(bClient) {
		t.Error("the longest idle one is still there")
	}
	// Before the next idle one goes an unproven one that is old.
	fourth.Prove()
	third.aged(2 * provingTime)
	arrive()
	if !cut(thirdClient) {
		t.Error("the unproven one is still there")
	}
	for _, client := range []net.Conn{aClient, secondClient} {
		_ = client.SetReadDeadline(time.Now())
		if _, err := client.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
			t.Error("one too many has gone")
		}
	}
	if n := c.Busy(); n != 1 {
		t.Errorf("%d are busy", n)
	}
}

// Where others are being proven, a slow one of an honest crowd has twice the time.
func TestTimeToProveOneself(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		reason     string
		since, ago time.Duration
		left       time.Duration
	}{
		{"nobody has been proven", 0, time.Hour, provingTime},
		{"somebody was, a while ago", provingTime, provingPause, 0},
		{"somebody was, just now", 0, 0, provingTime},
		{"just now, and its time is over", provingTime, 0, provingPause},
		{"just now, and twice its time nearly", 2*provingTime - provingPause/2, 0, provingPause / 2},
		{"just now, and twice its time", 2 * provingTime, 0, 0},
	} {
		c := &Listener{lastProven: now.Add(-tc.ago)}
		if got := c.overFor(&Conn{since: now.Add(-tc.since)}); !got.Equal(now.Add(tc.left)) {
			t.Errorf("%s: %s left, want %s", tc.reason, got.Sub(now), tc.left)
		}
	}
	c := New(nil, Options{Most: 2})
	p := &Conn{among: c}
	if p.Prove(); c.lastProven.Before(now) {
		t.Error("nobody notes that somebody has been proven")
	}
}

func TestHalfOfFewPlacesAreForTheUnproven(t *testing.T) {
	for most, want := range map[int]int{1: 1, 2: 1, 3: 1, 10: 5, 512: 256, 4096: 256} {
		if got := New(nil, Options{Most: most}).mostUnproven; got != want {
			t.Errorf("of %d places %d, want %d", most, got, want)
		}
	}
}
