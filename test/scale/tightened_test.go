package scale

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// relics are objects as an API server can hold them from before a rule was tightened, or whose surroundings are gone.
var relics = []struct {
	name string
	// before is what the Proxy is made with.
	before func(*v1alpha1.Proxy)
	// after, where set, is what it becomes once its instance runs.
	after func(*v1alpha1.Proxy)
	// reason is what a person sees then, nothing where the object works as it is.
	reason string
}{
	{name: "provider name too long", before: func(p *v1alpha1.Proxy) { p.Spec.Provider = strings.Repeat("x", 300) }, reason: v1alpha1.ReasonProviderNotConfigured},
	{name: "no provider", before: func(p *v1alpha1.Proxy) { p.Spec.Provider = "" }, reason: v1alpha1.ReasonProviderNotConfigured},
	{name: "port 0", before: func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](0) }, reason: v1alpha1.ReasonPermanentError},
	{name: "port 70000", before: func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](70000) }, reason: v1alpha1.ReasonPermanentError},
	{name: "port 70000 while it runs", after: func(p *v1alpha1.Proxy) { p.Spec.Port = ptr.To[int32](70000) }, reason: v1alpha1.ReasonUpdateBlocked},
	{name: "zone refused", before: toZone("zone-c"), reason: v1alpha1.ReasonPermanentError},
	{name: "zone refused while it runs", after: toZone("zone-c"), reason: v1alpha1.ReasonUpdateBlocked},
	{name: "zone with a blank", before: toZone("zone a"), reason: v1alpha1.ReasonPermanentError},
	{name: "attribute that is no label", before: func(p *v1alpha1.Proxy) {
		p.Spec.Attributes = map[string]v1alpha1.AttributeValue{"a key/with/slashes": v1alpha1.AttributeValue(strings.Repeat("ü", 100))}
	}},
	{name: "cap below 1", before: func(p *v1alpha1.Proxy) { p.Spec.MaxConcurrentLeases = ptr.To[int32](-5) }},
	{name: "managed with an endpoint", before: func(p *v1alpha1.Proxy) { p.Spec.Endpoint = &v1alpha1.Endpoint{Host: "192.0.2.7", Port: 80} }},
	{name: "cloud-init of both kinds", before: func(p *v1alpha1.Proxy) {
		p.Spec.CloudInit = &v1alpha1.CloudInit{Inline: "a", SecretRef: &v1alpha1.SecretKeyRef{Name: "absent"}}
	}, reason: v1alpha1.ReasonCloudInitError},
	{name: "cloud-init Secret never there", before: withCloudInit("absent"), reason: v1alpha1.ReasonCloudInitError},
	{name: "cloud-init Secret gone", before: withCloudInit("gone"), after: nothing, reason: v1alpha1.ReasonUpdateBlocked},
	{name: "credentials never there", before: withAuth("absent"), reason: v1alpha1.ReasonAuthError},
	{name: "credentials gone", before: withAuth("gone-too"), after: nothing, reason: v1alpha1.ReasonUpdateBlocked},
}

func nothing(*v1alpha1.Proxy) {}

func toZone(zone string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: zone} }
}

func withCloudInit(name string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) {
		p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: name}}
	}
}

func withAuth(name string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: name}} }
}

// TestRelicsCanBeFinalised puts objects into the API that its rules would refuse today, among a fleet that works, says what
// is wrong with them, and deletes them.
func TestRelicsCanBeFinalised(t *testing.T) {
	t.Parallel()
	simulate(t, setting{}, func(t *testing.T, w *world) {
		w.putSecret(cloudInitSecret("gone", "#cloud-config"))
		w.putSecret(authSecret("gone-too", "secret"))
		w.grow(50)
		for i, relic := range relics {
			change := relic.before
			if change == nil {
				change = nothing
			}
			w.add(100+i, change)
		}
		w.pass(2 * time.Minute)
		for i, relic := range relics {
			if relic.after == nil {
				continue
			}
			if !ready(w.get(nth(100 + i))) {
				t.Fatalf("%s: it does not run: %+v", relic.name, w.get(nth(100+i)).Status)
			}
			w.edit(nth(100+i), relic.after)
		}
		w.must(w.server.remove(kindSecret, keyOf("gone")))
		w.must(w.server.remove(kindSecret, keyOf("gone-too")))
		w.pass(2 * time.Minute)
		for i, relic := range relics {
			c := provisioned(w.get(nth(100 + i)))
			if want := relic.reason; c.Reason != want && (want != "" || c.Reason != v1alpha1.ReasonCreated) {
				t.Errorf("%s: a person sees %s (%s), want %s", relic.name, c.Reason, c.Message, want)
			}
		}
		for i := range relics {
			w.delete(nth(100 + i))
		}
		took := w.until(5*time.Minute, "all are finalised", func() bool { return w.count(func(*v1alpha1.Proxy) bool { return true }) == 50 })
		t.Logf("%d relics finalised within %s", len(relics), took)
		if left := len(w.instances()); left != 50 {
			t.Errorf("%d instances are left for 50 Proxies", left)
		}
	})
}

// TestDeletionWaitsForTheHost deletes Proxies whose host is gone: that stays visible, goes on being tried, and ends when the
// host is back.
func TestDeletionWaitsForTheHost(t *testing.T) {
	t.Parallel()
	const stranded = 20
	simulate(t, setting{targetOf: zoneOf}, func(t *testing.T, w *world) {
		w.grow(30)
		for i := range stranded {
			w.add(100+i, toZone("zone-b"))
		}
		w.until(5*time.Minute, "all run", func() bool { return w.count(ready) == 30+stranded })
		w.cloud.breakBy(func(op string, ref provider.Ref, _ provider.CreateRequest) (f fault) {
			if op != opPlan && op != opList && zoneOf(ref) == "zone-b" {
				f.err = w.cloud.wrap(provider.ErrTransient, op, ref, errors.New("no route to host"))
			}
			return f
		})
		w.backend.SetUnread("zone-b", true)
		start := time.Now()
		for i := range stranded {
			w.delete(nth(100 + i))
		}
		w.pass(time.Hour)
		for i := range stranded {
			p := w.get(nth(100 + i))
			if p == nil {
				t.Fatalf("%s was released although nobody could look at its instance", nth(100+i))
			}
			if c := provisioned(p); c.Reason != v1alpha1.ReasonDeleting || !strings.Contains(c.Message, "no route to host") || p.Status.Phase != v1alpha1.PhaseDeleting {
				t.Errorf("a person sees phase %s and %+v", p.Status.Phase, c)
			}
		}
		longest, most := time.Duration(0), 0
		for uid, tries := range byUID(w.cloud.since(start, opGet, opDelete)) {
			if !w.stranded(uid) {
				continue
			}
			most = max(most, len(tries))
			for n := 1; n < len(tries); n++ {
				longest = max(longest, tries[n].began.Sub(tries[n-1].ended))
			}
			longest = max(longest, time.Since(tries[len(tries)-1].ended))
		}
		w.cloud.breakBy(nil)
		w.backend.SetUnread("zone-b", false)
		took := w.until(15*time.Minute, "all are gone", func() bool { return w.count(func(*v1alpha1.Proxy) bool { return true }) == 30 })
		t.Logf("in 1 h: at most %d tries for one, the longest wait %s; gone %s after the host was back", most, longest, took)
		if longest > 11*time.Minute { // ten, jittered by a tenth
			t.Errorf("nothing was tried for %s", longest)
		}
		if left := len(w.instances()); left != 30 {
			t.Errorf("%d instances are left for 30 Proxies", left)
		}
	})
}

// stranded reports whether uid is that of a Proxy in zone-b.
func (w *world) stranded(uid string) bool {
	for _, p := range w.all() {
		if string(p.UID) == uid {
			return p.Spec.Placement != nil && p.Spec.Placement.Zone == "zone-b"
		}
	}
	return false
}

// zoneOf makes each zone a target of its own.
func zoneOf(ref provider.Ref) string {
	var zone, name string
	if _, err := fmt.Sscanf(strings.ReplaceAll(ref.ID, "/", " "), "zones %s instances %s", &zone, &name); err != nil {
		return ""
	}
	return zone
}
