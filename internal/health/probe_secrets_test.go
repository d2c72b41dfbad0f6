package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// everything is what an engine says to the outside: log lines at every level, what metrics are told, and turns.
type everything struct {
	mu     sync.Mutex
	said   strings.Builder
	probed map[string]int
}

func (e *everything) say(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fmt.Fprintf(&e.said, format+"\n", args...)
}

func (e *everything) ObserveProbe(namespace, name string, _ time.Duration, _ bool, reason string) {
	e.say("probe %s %s %s", namespace, name, reason)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probed[name]++
}

func (e *everything) ObserveTargetRefusal(namespace, name string) {
	e.say("refusal %s %s", namespace, name)
}
func (e *everything) Forget(namespace, name string) { e.say("forget %s %s", namespace, name) }
func (e *everything) SetSharedCauses(urls int)      { e.say("causes %d", urls) }

// Misbehaving proxies and origins of every kind, which repeat whatever they were sent, make an engine show no credential and
// no probe URL: in no verdict, log line or metric.
func TestNoSecretIsShown(t *testing.T) {
	all := &everything{probed: map[string]int{}}
	store := fleet.NewStore()
	e, err := New(Options{
		Store: store, Prober: NewProber(ProberOptions{DialPolicy: RefuseInternal(nil)}), Metrics: all,
		Logger:       funcr.New(func(prefix, args string) { all.say("%s %s", prefix, args) }, funcr.Options{Verbosity: 10}),
		OnTransition: func(key types.NamespacedName) { all.say("told %+v", store.Get(key).Verdict) },
		JudgeURL:     "http://127.0.0.1:1/" + secretQuery,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Start(ctx) }()

	names := map[string]string{}
	add := func(title string, target Target, change func(*fleet.Proxy)) {
		name := fmt.Sprintf("row-%d", len(names))
		names[name] = title
		store.Apply(proxy(name, func(p *fleet.Proxy) {
			p.Endpoint, p.Credentials, p.Probe = target.Endpoint, target.Credentials, target.Probe
			p.Probe.Interval, p.Probe.SuccessThreshold, p.Probe.FailureThreshold = 10*time.Second, 1, 1
			if change != nil {
				change(p)
			}
		}))
	}
	for _, c := range rows() {
		add(c.name, c.target(t), nil)
	}
	sound := row{}.target(t)
	add("credentials that are being rotated", sound, func(p *fleet.Proxy) {
		p.Next = &provider.Credentials{Username: "sentinel-new", Password: "sentinel-new", Revision: "new"}
	})
	sound.Endpoint.Host = "127.0.0.1"
	add("refused address", sound, func(p *fleet.Proxy) { p.Mode = "External" })
	sound.Endpoint.Port = 1
	add("nobody listens", sound, nil)
	waitFor(t, func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		return len(all.probed) == len(names)
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for name, title := range names {
		v, _ := e.Verdict(keyOf(name))
		if secret := leak(fmt.Sprintf("%+v", v)); secret != "" {
			t.Errorf("%s: %q shows in %+v", title, secret, v)
		}
		if v.Health == fleet.HealthUnknown {
			t.Errorf("%s: no verdict, so nothing was seen: %+v", title, v)
		}
	}
	for line := range strings.Lines(all.said.String()) {
		if secret := leak(line); secret != "" {
			t.Errorf("%q shows in %s", secret, line)
		}
	}
	for _, want := range []string{"Health changed", "The judge url cannot be fetched", "refusal ns ", "told "} {
		if !strings.Contains(all.said.String(), want) {
			t.Errorf("nothing was said of %q: this test could not fail", want)
		}
	}
}
