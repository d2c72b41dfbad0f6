package proxy_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// wakes keeps who was woken and when.
type wakes struct {
	mu   sync.Mutex
	keys []types.NamespacedName
	at   []time.Time
}

func (w *wakes) wake(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys, w.at = append(w.keys, key), append(w.at, time.Now())
}

func (w *wakes) take() (keys []types.NamespacedName, at []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys, at = w.keys, w.at
	w.keys, w.at = nil, nil
	return keys, at
}

func key(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "crawl", Name: fmt.Sprintf("p-%05d", i)}
}

// releasing runs f in a bubble with a releaser over n Proxies of the entry "cloud", of which every fourth is provisioned, and
// some that are not meant.
func releasing(t *testing.T, n int, f func(t *testing.T, r *proxy.Releaser, w *wakes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		store, w := fleet.NewStore(), &wakes{}
		for i := range n {
			store.Apply(&fleet.Proxy{Key: key(i), UID: key(i).Name, Mode: v1alpha1.ModeManaged, Provider: "cloud", Provisioned: i%4 == 0})
		}
		store.Apply(&fleet.Proxy{Key: types.NamespacedName{Name: "other"}, UID: "o", Mode: v1alpha1.ModeManaged, Provider: "other"})
		store.Apply(&fleet.Proxy{Key: types.NamespacedName{Name: "external"}, UID: "e", Mode: v1alpha1.ModeExternal})
		r := proxy.NewReleaser(proxy.ReleaserOptions{Store: store, Clock: clock.RealClock{}, Wake: w.wake})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := r.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		f(t, r, w)
		cancel()
		wg.Wait()
	})
}

func sleep(d time.Duration) { <-time.After(d); synctest.Wait() }

// expectOnce checks that every Proxy of the entry was woken exactly once.
func expectOnce(t *testing.T, what string, n int, keys []types.NamespacedName) {
	t.Helper()
	seen := map[types.NamespacedName]int{}
	for _, k := range keys {
		seen[k]++
	}
	for i := range n {
		if seen[key(i)] != 1 {
			t.Errorf("%s: %s was woken %d times", what, key(i).Name, seen[key(i)])
		}
	}
	if len(seen) != n {
		t.Errorf("%s: %d Proxies were woken, want %d", what, len(seen), n)
	}
}

func TestAReleaseIsSpread(t *testing.T) {
	for _, n := range []int{12, 100, 1000, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			releasing(t, n, func(t *testing.T, r *proxy.Releaser, w *wakes) {
				r.Release("cloud")
				sleep(5 * time.Minute)
				keys, at := w.take()
				expectOnce(t, "release", n, keys)
				if took := at[len(at)-1].Sub(at[0]); took < 10*time.Second || took > max(13*time.Second, time.Duration(n)*time.Second/80) {
					t.Errorf("spread over %s", took)
				}
				first := 0
				for i := range at {
					for at[i].Sub(at[first]) >= time.Second {
						first++
					}
					if i-first+1 > 100 {
						t.Fatalf("%d woken in one second", i-first+1)
					}
				}
				// Those that wait come first.
				served := 0
				for i, k := range keys {
					var number int
					_, _ = fmt.Sscanf(k.Name, "p-%d", &number)
					if number%4 == 0 {
						served++
					} else if served > n/20 {
						t.Fatalf("the %d-th to be woken waits, after %d that do not", i, served)
					}
				}
			})
		})
	}
}

func TestAFewAreReleasedSoon(t *testing.T) {
	releasing(t, 3, func(t *testing.T, r *proxy.Releaser, w *wakes) {
		r.Release("cloud")
		sleep(3200 * time.Millisecond)
		keys, _ := w.take()
		expectOnce(t, "release", 3, keys)
	})
}

// Whoever was woken before the second release is woken again, whoever was not keeps the turn.
func TestASecondReleaseLosesNobody(t *testing.T) {
	const n = 1000
	releasing(t, n, func(t *testing.T, r *proxy.Releaser, w *wakes) {
		r.Release("cloud")
		sleep(6 * time.Second)
		early, _ := w.take()
		if len(early) < n/4 || len(early) > n*3/4 {
			t.Fatalf("%d woken in the first six seconds", len(early))
		}
		for range 50 {
			r.Release("cloud")
		}
		sleep(time.Minute)
		late, at := w.take()
		expectOnce(t, "from the second release on", n, late)
		if took := at[len(at)-1].Sub(at[0]); took < 10*time.Second {
			t.Errorf("all of them within %s", took)
		}
		first := 0
		for i := range at {
			for at[i].Sub(at[first]) >= time.Second {
				first++
			}
			if i-first+1 > 101 {
				t.Fatalf("%d woken in one second", i-first+1)
			}
		}
		r.Release("nobody's")
		sleep(time.Minute)
		if more, _ := w.take(); len(more) > 0 {
			t.Errorf("%d more were woken", len(more))
		}
	})
}

// What is asked for before the start is not lost, and asking never blocks.
func TestAReleaseWaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := fleet.NewStore(), &wakes{}
		r := proxy.NewReleaser(proxy.ReleaserOptions{Store: store, Clock: clock.RealClock{}, Wake: w.wake})
		if !r.NeedLeaderElection() {
			t.Error("standbys would release")
		}
		for range 1000 {
			r.Release("cloud")
		}
		for i := range 20 {
			store.Apply(&fleet.Proxy{Key: key(i), UID: key(i).Name, Mode: v1alpha1.ModeManaged, Provider: "cloud"})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Start(ctx) })
		sleep(time.Minute)
		keys, _ := w.take()
		expectOnce(t, "after the start", 20, keys)
		cancel()
		wg.Wait()
	})
}
