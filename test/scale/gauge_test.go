package scale

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// gauge counts the stored Proxies of which something is true, at every single write.
type gauge struct {
	mu        sync.Mutex
	now, most int
}

// gauge starts counting with the present.
func (w *world) gauge(is func(*v1alpha1.Proxy) bool) *gauge {
	g := &gauge{}
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	for _, s := range w.server.objects[kindProxy] {
		if is(s.obj.(*v1alpha1.Proxy)) {
			g.now++
		}
	}
	g.most = g.now
	w.server.onWrite = append(w.server.onWrite, func(before, after *v1alpha1.Proxy) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if before != nil && is(before) {
			g.now--
		}
		if after != nil && is(after) {
			g.now++
		}
		g.most = max(g.most, g.now)
	})
	return g
}

func (g *gauge) max() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.most
}

// away: the Proxy takes a place for replacements, or has nothing to offer.
func away(p *v1alpha1.Proxy) bool { return p.Status.ReplacingSince != nil || p.Status.IP == "" }

// instances returns what exists at the backend now. It is asked for at least once a second, hence remembered.
func (w *world) instances() []providertest.Leftover {
	if now := time.Now(); w.lookedAt.IsZero() || !w.lookedAt.Equal(now) {
		w.lookedAt, w.seen = now, w.backend.Instances()
	}
	return w.seen
}

// identities returns the identity of every instance that exists, by ID.
func (w *world) identities() map[string]string {
	found := map[string]string{}
	for _, i := range w.backend.Instances() {
		found[i.ID] = i.Identity
	}
	return found
}

// standing returns how many instances exist and are not being deleted.
func (w *world) standing() (n int) {
	for _, i := range w.instances() {
		if !i.Deleting {
			n++
		}
	}
	return n
}

// neverTwo has the world checked for two instances of one Proxy.
func (w *world) neverTwo() {
	w.always(func() {
		seen := map[string]bool{}
		for _, i := range w.instances() {
			if seen[i.Marks.UID] {
				w.t.Fatalf("there are two instances of %s/%s", i.Marks.Namespace, i.Marks.Name)
			}
			seen[i.Marks.UID] = true
		}
	})
}

// byProxy sorts writes by Proxy, in their order.
func byProxy(writes []write) map[types.NamespacedName][]write {
	sorted := map[types.NamespacedName][]write{}
	for _, w := range writes {
		sorted[w.key] = append(sorted[w.key], w)
	}
	return sorted
}

// byUID sorts calls by the UID of their Proxy, in their order.
func byUID(calls []call) map[string][]call {
	sorted := map[string][]call{}
	for _, c := range calls {
		sorted[c.ref.UID] = append(sorted[c.ref.UID], c)
	}
	return sorted
}

// quantile returns the q-quantile of ds, which it sorts; 0 for none.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(int(q*float64(len(ds))), len(ds)-1)]
}

// busiestSecond returns the most writes within one second.
func busiestSecond(writes []write) (most int) {
	first := 0
	for i := range writes {
		for writes[i].at.Sub(writes[first].at) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
