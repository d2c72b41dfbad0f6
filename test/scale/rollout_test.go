package scale

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
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
		gone, before, start := w.gauge(away), w.identities(), time.Now()
		taken := map[string]time.Time{} // since when the new credentials are given out, by UID
		early := 0
		rotated := authSecret("shared", "two")
		wanted, err := fleet.CredentialsFromSecret(rotated)
		w.must(err)
		offer := w.shelf(func(p *fleet.Proxy) {
			if _, seen := taken[p.UID]; seen || p.Credentials.Revision != wanted.Revision {
				return
			}
			taken[p.UID] = time.Now()
			if w.backend.CredentialRevision(p.ProviderID) != wanted.Revision {
				early++
			}
		})
		w.putSecret(rotated)
		took := w.until(10*time.Minute, "all are offered with the new credentials", func() bool {
			return w.offered() == fleetSize && w.count(ready) == fleetSize && w.holding(wanted.Revision) == fleetSize
		})
		w.pass(2 * time.Minute)

		updates := w.cloud.since(start, opUpdate)
		var stale []time.Duration
		for _, one := range updates {
			stale = append(stale, taken[one.ref.UID].Sub(one.ended))
		}
		least, left := offer.fewest()
		t.Logf("handed over within %s with %d calls (at most %d in one second); at least %d offered meanwhile, left %v; the old ones given out for %s (median) to %s too long; %d writes",
			took, len(updates), busiest(updates, time.Second), least, left, quantile(stale, 0.5), quantile(stale, 1), len(w.link.since(start)))
		if gone.max() != 0 || len(w.cloud.since(start, opCreate, opDelete)) != 0 {
			t.Errorf("%d were away, %d calls to create or delete: credentials are handed over in place", gone.max(), len(w.cloud.since(start, opCreate, opDelete)))
		}
		w.sameAs(before)
		if len(updates) != fleetSize || w.holding(wanted.Revision) != fleetSize {
			t.Errorf("%d calls for %d instances, %d hold the new credentials", len(updates), fleetSize, w.holding(wanted.Revision))
		}
		if least < fleetSize*99/100 {
			t.Errorf("only %d of %d were on offer at one time", least, fleetSize)
		}
		// A probe every ten seconds meanwhile, and one more for its turn.
		if early > 0 || quantile(stale, 1) > 11*time.Second {
			t.Errorf("%d were offered with credentials not yet theirs, and some for %s with such as are theirs no longer", early, quantile(stale, 1))
		}
	})
}

// holding returns how many Proxies are offered with the credentials of the revision, which their instances take.
func (w *world) holding(revision string) (n int) {
	for _, p := range w.store.OfProvider(entry) {
		if p.Next == nil && p.Credentials.Revision == revision && w.backend.CredentialRevision(p.ProviderID) == revision {
			n++
		}
	}
	return n
}
