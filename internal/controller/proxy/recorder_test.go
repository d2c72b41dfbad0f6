package proxy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// counts keeps what a reconciler tells, one line each.
type counts struct {
	mu     sync.Mutex
	passes map[string]int
	lines  []string
}

func (c *counts) Pass(seen, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passes[seen+" "+result]++
}
func (c *counts) Failure(name, reason string)    { c.note("failure", name, reason) }
func (c *counts) Replacement(name, cause string) { c.note("replacement", name, cause) }
func (c *counts) InstanceLost(name string)       { c.note("lost", name) }

func (c *counts) note(words ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, strings.Join(words, " "))
}

// take returns the lines since the last call.
func (c *counts) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.lines
	c.lines = nil
	return out
}

func (c *counts) had(pass string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passes[pass]
}

// recorded has the reconciler tell the returned counts.
func (x *rig) recorded() *counts {
	c := &counts{passes: map[string]int{}}
	x.r.Metrics = c
	return c
}

// TestEachReplacementIsCountedOnce: by its cause, and only once it is on record.
func TestEachReplacementIsCountedOnce(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	c := x.recorded()
	key := x.managed("a", replaceAfter(time.Minute))
	again := func(attempt int64) *v1alpha1.Proxy {
		t.Helper()
		p := x.until(key, fmt.Sprintf("attempt %d runs", attempt), func(p *v1alpha1.Proxy) bool {
			return atAttempt(attempt)(p) && reason(p) == v1alpha1.ReasonCreated && p.Status.ReplacingSince != nil == (attempt > 1)
		})
		x.health.say(p, fleet.Healthy, v1alpha1.ReasonProbeSucceeded, time.Millisecond)
		x.step(time.Hour) // no early death
		return x.until(key, "Ready", ready)
	}
	want := func(when string, want ...string) {
		t.Helper()
		if got := c.take(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	again(1)
	want("made")
	x.edit(key, setPort(8080))
	again(2)
	want("the spec was changed", "replacement "+x.entry+" spec")
	x.edit(key, ask("1"))
	p := again(3)
	want("asked for", "replacement "+x.entry+" annotation")
	x.backend.Stop(p.Status.ProviderID, "")
	p = again(4)
	want("stopped", "replacement "+x.entry+" stopped")
	x.health.say(p, fleet.Unhealthy, v1alpha1.ReasonTimeout, 0)
	x.watch(key, 10*time.Minute, nil)
	p = again(5)
	want("unhealthy", "replacement "+x.entry+" unhealthy")
	x.backend.Vanish(p.Status.ProviderID)
	x.until(key, "attempt 6", atAttempt(6))
	want("vanished", "lost "+x.entry)
	if c.had("running ok") == 0 || c.had("drifted ok") == 0 || c.had("provisioning ok") == 0 {
		t.Errorf("passes: %v", c.passes)
	}
}

func TestFailuresAreCountedByTheirReason(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		err    error
		reason string
	}{
		{provider.Wrap(provider.ErrQuotaExceeded, "create", "", "", errors.New("full")), v1alpha1.ReasonQuotaExceeded},
		{provider.Wrap(provider.ErrPermanent, "create", "", "", errors.New("bad")), v1alpha1.ReasonPermanentError},
		{provider.Wrap(provider.ErrDenied, "create", "", "", errors.New("no")), v1alpha1.ReasonProviderUnavailable},
	} {
		t.Run(one.reason, func(t *testing.T) {
			t.Parallel()
			x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
			c := x.recorded()
			x.failWith(one.err, providertest.OpCreate)
			key := x.managed("a")
			x.until(key, one.reason, func(p *v1alpha1.Proxy) bool { return reason(p) == one.reason })
			if got := c.take(); !slices.Equal(got, []string{"failure " + x.entry + " " + one.reason}) {
				t.Errorf("told %q", got)
			}
		})
	}
}

// TestPassesAreCountedByTheirEnd: what the API server refuses is an error, but for a write that somebody else's overtook.
func TestPassesAreCountedByTheirEnd(t *testing.T) {
	t.Parallel()
	x := newRig(t, providertest.KindGCP, providertest.BackendOptions{})
	c := x.recorded()
	key := x.managed("a")
	x.untilRunning(key)
	x.edit(key, setPort(8080))
	old := &stale{Client: x.client, old: x.get(key)}
	x.edit(key, setPort(8081))
	x.r.Client = old
	x.pass(key)
	if c.had("drifted dropped") != 1 {
		t.Errorf("a pass over what is old: %v", c.passes)
	}
	external := &v1alpha1.Proxy{}
	external.Namespace, external.Name = x.ns, "external"
	external.Spec.Mode = v1alpha1.ModeExternal
	external.Spec.Endpoint = &v1alpha1.Endpoint{Host: "192.0.2.1", Port: 3128}
	must(t, x.client.Create(t.Context(), external))
	x.r.Client = x.client
	x.pass(client.ObjectKeyFromObject(external))
	if c.had("external ok") != 1 {
		t.Errorf("a pass over an External Proxy: %v", c.passes)
	}
}

func TestSightsAreLabels(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range proxy.Sights() {
		if s == "" || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") != "" || seen[s] {
			t.Errorf("%q is no label of its own", s)
		}
		seen[s] = true
	}
	if len(seen) != 18 {
		t.Errorf("%d sights: one of the table has no label", len(seen))
	}
}
