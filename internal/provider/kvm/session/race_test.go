package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
)

// Whatever befalls connections and callers in real time, answers are those to the questions, and nothing is left.
func TestAnythingAtOnce(t *testing.T) {
	r := newRig(t, func(o *session.Options) { o.Patience = 50 * time.Millisecond })
	r.daemon.AddVolume("v", 1)
	r.server.SetFault(func(c *wiretest.Call) bool {
		switch n := rand.IntN(400); {
		case c.Name == "AuthList" || c.Name == "ConnectOpen" || n > 4:
			return false
		case n == 0:
			c.Conn.Cut()
		case n == 1:
			c.Conn.Silence()
		case n == 2:
			c.Conn.Send([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		case n == 3:
			c.Conn.Send(append(c.Answer(make([]byte, 8)).Bytes(), c.Answer(nil).Bytes()...))
		}
		return true
	})
	before := runtime.NumGoroutine()
	var answered, lost, late int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			for n := range 150 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(40))*time.Millisecond)
				name := fmt.Sprintf("d-%d-%d", i, n)
				_, err := lookup(ctx, r.Host, name)
				if n%10 == 0 {
					err = send(ctx, r.Host, name, strings.NewReader("content"), 7)
				}
				cancel()
				mu.Lock()
				e, ok := errors.AsType[libvirt.Error](err)
				switch {
				case ok && strings.Contains(e.Message, "'"+name+"'"):
					answered++
				case session.Lost(err), session.Unopened(err):
					lost++
				case errors.Is(err, context.DeadlineExceeded):
					late++
				case err != nil && strings.Contains(err.Error(), "xdr"): // the answer that has the wrong form
				default:
					t.Errorf("%s: %v", name, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d answered, %d lost, %d late, %d connections", answered, lost, late, r.server.Served())
	if answered < 100 || lost < 10 || r.server.Served() < 3 {
		t.Error("too little has happened")
	}
	r.Close()
	r.server.Close()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left", runtime.NumGoroutine()-before)
		}
	}
}

// Hosts come and go while they are called.
func TestCloseAnytime(t *testing.T) {
	for range 200 {
		r := newRig(t, nil)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if err := version(t.Context(), r.Host); err != nil {
						if !session.Lost(err) {
							t.Error(err)
						}
						return
					}
				}
			})
			wg.Go(func() {
				if l, err := r.Open(t.Context()); err == nil {
					_ = on1(t.Context(), l)
					_ = l.Close()
				}
			})
		}
		for range rand.IntN(2000) {
			runtime.Gosched()
		}
		r.Close()
		if n := r.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
		wg.Wait()
		r.server.Close()
	}
}
