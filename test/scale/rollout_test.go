package scale

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// waitingMessage is how the condition of a Proxy begins that waits for its turn.
const waitingMessage = "waits for its turn to be replaced"

// tenth is how many of n instances may be replaced at one time.
func tenth(n int) int { return max(1, n/10) }

// waits: the instance serves although it is not as desired.
func waits(p *v1alpha1.Proxy) bool {
	c := provisioned(p)
	return c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonUpdateBlocked && strings.HasPrefix(c.Message, waitingMessage)
}

// TestRotatedCloudInit changes the user-data that the whole fleet shares, which only new instances can have.
func TestRotatedCloudInit(t *testing.T) {
	t.Parallel()
	simulate(t, setting{}, func(t *testing.T, w *world) {
		w.putSecret(cloudInitSecret("shared", "#cloud-config\nversion: 1"))
		w.grow(fleetSize, func(p *v1alpha1.Proxy) {
			p.Spec.CloudInit = &v1alpha1.CloudInit{SecretRef: &v1alpha1.SecretKeyRef{Name: "shared"}}
		})
		limit := tenth(fleetSize)
		gone := w.gauge(away)
		w.neverTwo()
		leastOffered, leastStanding := fleetSize, fleetSize
		w.always(func() {
			leastOffered, leastStanding = min(leastOffered, w.offered()), min(leastStanding, w.standing())
		})
		start := time.Now()
		w.putSecret(cloudInitSecret("shared", "#cloud-config\nversion: 2"))

		w.pass(time.Minute)
		if n := w.count(waits); n < fleetSize-3*limit {
			t.Errorf("a minute later %d Proxies wait for their turn; %s", n, w.summary())
		}
		replacing := []string{
			v1alpha1.ReasonDraining, v1alpha1.ReasonReplacing, v1alpha1.ReasonProvisioning, // on the way
			v1alpha1.ReasonCreated, // done, or not told yet
		}
		for _, p := range w.all() {
			if c := provisioned(p); !waits(p) && !slices.Contains(replacing, c.Reason) {
				t.Fatalf("%s shows %+v", p.Name, c)
			}
		}
		took := time.Minute + w.until(30*time.Minute, "all have the new user-data", func() bool {
			return w.count(ready) == fleetSize && w.count(func(p *v1alpha1.Proxy) bool { return p.Status.Instance.Attempt == 2 }) == fleetSize
		})
		w.pass(2 * time.Minute)

		most, texts, all := waitingWrites(w.link.since(start))
		t.Logf("replaced within %s; at most %d of %d away, at least %d offered, at least %d standing; %d writes (at most %d in one second), at most %d while waiting",
			took, gone.max(), fleetSize, leastOffered, leastStanding, all, busiestSecond(w.link.since(start)), most)
		t.Logf("Events from the beginning on: %v", w.events.all())
		if gone.max() > limit || leastOffered < fleetSize-limit || leastStanding < fleetSize-limit {
			t.Errorf("more than %d instances were withdrawn or replaced at one time", limit)
		}
		if most > 2 || texts > 1 {
			t.Errorf("a waiting Proxy was written %d times with %d messages, want one that does not change", most, texts)
		}
		if creates := len(w.cloud.since(start, opCreate)); creates != fleetSize {
			t.Errorf("%d creations for %d replacements", creates, fleetSize)
		}
	})
}

// waitingWrites returns the most writes that one Proxy got before its own replacement began, the most messages that it
// showed meanwhile, and the number of all writes.
func waitingWrites(writes []write) (most, texts, all int) {
	for _, mine := range byProxy(writes) {
		n, seen := 0, map[string]bool{}
		for _, one := range mine {
			if one.after.Status.ReplacingSince != nil {
				break
			}
			n++
			seen[provisioned(one.after).Message] = true
		}
		most, texts, all = max(most, n), max(texts, len(seen)), all+len(mine)
	}
	return most, texts, all
}

// TestRotatedCredentials changes the credentials that the whole fleet shares, which the provider hands to the running
// instances.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	simulate(t, setting{rotates: true}, func(t *testing.T, w *world) {
		w.putSecret(authSecret("shared", "one"))
		w.grow(fleetSize, func(p *v1alpha1.Proxy) {
			p.Spec.Auth = &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "shared"}}
		})
		gone := w.gauge(away)
		before := w.identities()
		leastOffered := fleetSize
		w.always(func() { leastOffered = min(leastOffered, w.offered()) })
		start := time.Now()
		w.putSecret(authSecret("shared", "two"))
		w.pass(time.Second)
		took := time.Second + w.until(10*time.Minute, "all are offered with the new credentials", func() bool {
			return w.offered() == fleetSize && w.count(ready) == fleetSize
		})
		w.pass(2 * time.Minute)
		updates := w.cloud.since(start, opUpdate)
		t.Logf("handed over within %s with %d calls (at most %d in one second); at least %d offered meanwhile; %d writes",
			took, len(updates), busiest(updates, time.Second), leastOffered, len(w.link.since(start)))
		if gone.max() != 0 || len(w.cloud.since(start, opCreate, opDelete)) != 0 {
			t.Errorf("%d were away, %d calls to create or delete: credentials are handed over in place", gone.max(), len(w.cloud.since(start, opCreate, opDelete)))
		}
		revision := w.backend.CredentialRevision(w.get(nth(0)).Status.ProviderID)
		for id, identity := range w.identities() {
			if before[id] != identity || w.backend.CredentialRevision(id) != revision {
				t.Fatalf("%s is another instance than before or has other credentials", id)
			}
		}
		if len(updates) != fleetSize {
			t.Errorf("%d calls for %d instances", len(updates), fleetSize)
		}
	})
}
