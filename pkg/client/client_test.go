package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func TestCloseReleasesEverything(t *testing.T) {
	r := newRig(t)
	for i := range 50 {
		r.put(fmt.Sprintf("p%d", i), func(p *fleet.Proxy) { p.Cap = 1 })
	}
	c := r.client(realTime)
	var leases []*Lease
	for range 50 {
		leases = append(leases, r.acquire(c, Request{}))
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Acquire(t.Context(), Request{Wait: time.Hour})
		waiting <- err
	}()
	eventually(t, "the waiting request", func() bool { return r.count("POST", leasesPath) == 51 })
	must(t, c.Close(t.Context()))
	wantIs(t, <-waiting, ErrClosed)
	r.wantLive(0)
	for _, l := range leases {
		wantIs(t, l.Err(), ErrReleased)
	}
	_, err := c.Acquire(t.Context(), Request{})
	wantIs(t, err, ErrClosed)
	must(t, c.Close(t.Context()))
}

func TestCloseGivesUpAtItsDeadline(t *testing.T) {
	r := newRig(t)
	r.put("a")
	c := r.client(realTime)
	l := r.acquire(c, Request{})
	r.on(func(_ http.ResponseWriter, req *http.Request, _ http.Handler) bool {
		<-req.Context().Done()
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantIs(t, c.Close(ctx), context.DeadlineExceeded)
	wantIs(t, l.Err(), ErrReleased)
	// The server can be told later.
	r.before.Store(nil)
	must(t, l.Release(t.Context()))
	r.wantLive(0)
}

func TestNothingFormattedHoldsASecret(t *testing.T) {
	r := newRig(t)
	r.put("a")
	log := &logBuffer{}
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := Options{BaseURL: r.url, Token: testToken, clock: r.clock, Logger: logger}
	c := r.client(func(given *Options) { *given = o })
	l := r.acquire(c, Request{TTL: time.Minute})
	p := l.Proxy()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{o, &o, l, p, &p, *p.Auth, p.Auth, p.Auth.Password, &p.Auth.Password, struct{ hidden Proxy }{p}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, v := range []any{o, l, p, p.Auth, p.Auth.Password} {
		logger.Info("value", "v", v)
		encoded, _ := json.Marshal(v)
		if _, isOptions := v.(Options); !isOptions {
			out.Write(encoded)
		}
	}
	r.on(func(http.ResponseWriter, *http.Request, http.Handler) bool { panic(http.ErrAbortHandler) })
	if err := l.Report(canceledSoon(t), ResultOK, ""); err != nil {
		out.WriteString(err.Error())
	}
	r.clock.Step(time.Minute)
	wantClosed(t, "the loss", l.Done())
	<-l.stopped
	r.before.Store(nil)
	for _, secret := range []string{testPassword, testToken, l.ID(), fmt.Sprintf("%x", testPassword)} {
		if strings.Contains(out.String(), secret) || strings.Contains(log.String(), secret) {
			t.Errorf("%q is shown:\n%s\n%s", secret, out.String(), log.String())
		}
	}
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func canceledSoon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}
