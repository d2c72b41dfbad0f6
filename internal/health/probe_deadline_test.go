package health

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// stalled is a probe that hangs at one stage for ever.
type stalled struct {
	name   string
	target Target
	prober *TunnelProber
	want   stage
	// reached is closed once the probe has come that far.
	reached chan struct{}
}

// stalls returns probes that hang at each stage, by silence and by a drip that never stops.
func stalls(t *testing.T) (all []stalled) {
	t.Helper()
	add := func(name, url string, want stage, proxy func(net.Conn), origin func(net.Conn)) {
		reached := make(chan struct{}, 100)
		noted := func(f func(net.Conn)) func(net.Conn) {
			return func(c net.Conn) { reached <- struct{}{}; f(c) }
		}
		var h = status(204)
		if origin != nil {
			h = raw(noted(origin))
		}
		address, ca := tlsOrigin(t, h)
		if proxy == nil {
			proxy = tunnels(established, address)
		} else {
			proxy = noted(proxy)
		}
		all = append(all, stalled{
			name: name, want: want, reached: reached, prober: NewProber(ProberOptions{}),
			target: Target{Endpoint: serve(t, proxy), Probe: v1alpha1.Probe{URL: url, CABundle: ca}},
		})
	}
	const tlsURL, plainURL = "https://example.com/", "http://target.test/"
	after := func(text string, f func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) { head(c); _, _ = io.WriteString(c, text); f(c) }
	}
	drip := func(c net.Conn) { drips(c, "") }
	const half = "HTTP/1.1 200 OK\r\nX-Drip: "
	const body = "HTTP/1.1 200 OK\r\n\r\n"
	then := func(text string, f func(net.Conn)) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text); f(c) }
	}
	add("silence before CONNECT is answered", tlsURL, stageConnect, swallow, nil)
	add("drip before CONNECT is answered", tlsURL, stageConnect, after(half, drip), nil)
	add("silence in the handshake", tlsURL, stageTLS, after(established, swallow), nil)
	add("drip in the handshake", tlsURL, stageTLS, after(established+"\x16\x03\x03\x40\x00\x02", drip), nil)
	add("silence before the answer", tlsURL, stageAnswer, nil, swallow)
	add("drip in the header", tlsURL, stageAnswer, nil, then(half, drip))
	add("silence in the body", tlsURL, stageBody, nil, then(body, swallow))
	add("drip in the body", tlsURL, stageBody, nil, then(body, drip))
	add("http: silence before the answer", plainURL, stageAnswer, swallow, nil)
	add("http: drip in the header", plainURL, stageAnswer, after(half, drip), nil)
	add("http: drip in the body", plainURL, stageBody, after(body, drip), nil)

	hangs := make(chan struct{}, 100)
	all = append(all, stalled{
		name: "resolver hangs", want: stageDial, reached: hangs,
		prober: NewProber(ProberOptions{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			hangs <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}}}),
		target: Target{Endpoint: fleet.Endpoint{Scheme: "http", Host: "proxy.test", Port: 3128}, Probe: v1alpha1.Probe{URL: tlsURL}},
	})
	if e, ok := blackHole(t); ok {
		all = append(all, stalled{
			name: "packets vanish", want: stageDial, prober: NewProber(ProberOptions{}),
			target: Target{Endpoint: e, Probe: v1alpha1.Probe{URL: tlsURL}},
		})
	}
	return all
}

func TestTheDeadlineEndsEveryStage(t *testing.T) {
	t.Parallel()
	for _, s := range stalls(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.target.Probe.Timeout = 2 * short
			want := "timed out while " + string(s.want)
			r := patiently(t, s.prober, s.target, want)
			if r.OK || r.Inconclusive || r.Reason != v1alpha1.ReasonTimeout || r.Message != want {
				t.Errorf("got %+v, want a time-out while %s", r, s.want)
			}
			if r.Latency < s.target.Probe.Timeout || r.Latency > slack {
				t.Errorf("it took %v", r.Latency)
			}
		})
	}
}

// The end of the operator, or of its lead, ends probes at once, whatever stage they are in, and they count for nothing.
func TestInterruptedAtEveryStage(t *testing.T) {
	t.Parallel()
	for _, s := range stalls(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				if s.reached != nil {
					<-s.reached
				}
				cancel()
			}()
			s.target.Probe.Timeout = 2 * enough
			r := s.prober.Probe(ctx, s.target)
			if !r.Inconclusive || r.OK || r.Latency > enough {
				t.Errorf("got %+v", r)
			}
			checkMessage(t, r)
		})
	}
}

// Each stage takes less than the time-out, all of them more.
func TestStagesShareOneDeadline(t *testing.T) {
	const each = 2 * short
	pause := func() { <-time.After(each) }
	address, ca := tlsOrigin(t, raw(func(c net.Conn) {
		pause()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n")
		pause()
		_, _ = io.WriteString(c, "a")
	}))
	forward := tunnels(established, address)
	target := Target{
		Endpoint: serve(t, func(c net.Conn) { pause(); forward(c) }),
		Probe:    v1alpha1.Probe{URL: "https://example.com/", CABundle: ca, Timeout: enough},
	}
	p := NewProber(ProberOptions{})
	if r := p.Probe(t.Context(), target); !r.OK || r.Latency < 3*each {
		t.Fatalf("with time enough: %+v", r)
	}
	target.Probe.Timeout = 2*each + each/2
	if r := p.Probe(t.Context(), target); r.Reason != v1alpha1.ReasonTimeout {
		t.Errorf("got %+v", r)
	}
}

// Old and new credentials are tried side by side, each with all of the probe's time: a proxy that needs most of it passes.
func TestBothCredentialsHaveTheWholeTimeOut(t *testing.T) {
	const timeout = 8 * time.Second
	for takes, want := range map[string]bool{"new": true, "old": false} {
		p := &slowProxy{takes: takes, given: make(chan time.Duration, 2), met: make(chan struct{})}
		e := &Engine{opts: Options{Prober: p}}
		r, rotated := e.probe(t.Context(), &job{proxy: proxy("a", func(p *fleet.Proxy) {
			p.Probe.Timeout = timeout
			p.Credentials, p.Next = &provider.Credentials{Username: "old"}, &provider.Credentials{Username: "new"}
		})})
		if !r.OK || rotated != want || len(p.given) != 2 || <-p.given != timeout || <-p.given != timeout {
			t.Errorf("%s works: rotated %v, %+v", takes, rotated, r)
		}
	}
}

// slowProxy takes one user's credentials, and answers nobody before both have asked.
type slowProxy struct {
	takes string
	given chan time.Duration
	met   chan struct{}
	asked atomic.Int32
}

func (p *slowProxy) Probe(_ context.Context, t Target) Result {
	p.given <- t.Probe.Timeout
	if p.asked.Add(1) == 2 {
		close(p.met)
	}
	select {
	case <-p.met:
	case <-time.After(10 * time.Second):
		return Result{Reason: v1alpha1.ReasonTimeout, Message: "asked alone"}
	}
	if t.Credentials.Username == p.takes {
		return good(time.Second)
	}
	return Result{Reason: v1alpha1.ReasonProxyAuthFailed, Message: "no"}
}
