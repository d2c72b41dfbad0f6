package scale

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// prompt is a cloud so fast that neither workers nor the places at it make anybody wait.
var prompt = setting{latency: time.Millisecond}

// flock is how many Proxies meet the same failure at one time.
var flock = min(200, fleetSize)

// refused makes flock Proxies whose creations all fail with err, lets time pass and returns their creations by Proxy.
func (w *world) refused(err error, watched time.Duration) map[string][]call {
	w.t.Helper()
	w.cloud.breakBy(func(op string, _ provider.Ref, _ provider.CreateRequest) fault {
		if op == opCreate {
			return fault{err: err}
		}
		return fault{}
	})
	for i := range flock {
		w.add(i)
	}
	w.pass(watched)
	creates := byUID(w.cloud.since(time.Time{}, opCreate))
	if len(creates) != flock {
		w.t.Errorf("%d of %d Proxies tried to create: %s", len(creates), flock, w.summary())
	}
	return creates
}

// gaps returns the times from the answer to the n-th creation, counted from 1, to the creation after it.
func gaps(creates map[string][]call, n int) (found []time.Duration) {
	for _, mine := range creates {
		if len(mine) > n {
			found = append(found, mine[n].began.Sub(mine[n-1].ended))
		}
	}
	slices.Sort(found)
	return found
}

// TestRetryAfterIsHonoured has a backend that asks for seven seconds of rest.
func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	const asked = 7 * time.Second
	for _, op := range []string{opCreate, opGet, opDelete} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			simulate(t, prompt, func(t *testing.T, w *world) {
				w.grow(flock)
				start := time.Now()
				busy := w.cloud.wrap(provider.ErrTransient, op, provider.Ref{}, errors.New("429 rate limit exceeded")).WithRetryAfter(asked)
				w.cloud.breakBy(func(at string, _ provider.Ref, _ provider.CreateRequest) (f fault) {
					if at == op {
						f.err = busy
					}
					return f
				})
				latest := asked*5/4 + 2*time.Second // a ninth on top, a tenth of jitter, and the workers' own delay
				switch op {
				case opCreate:
					for i := range flock {
						w.add(flock + i)
					}
					// What was refused may still have been accepted; until that is ruled out, nothing is sent again.
					latest = callTimeout + 20*time.Second + skew + 12*time.Second
				default:
					for i := range flock {
						w.delete(nth(i))
					}
				}
				w.pass(4 * time.Minute)
				calls := byUID(w.cloud.since(start, op))
				for n := 1; n <= 3; n++ {
					g := gaps(calls, n)
					if len(g) != flock {
						t.Fatalf("%d of %d Proxies tried again after refusal %d", len(g), flock, n)
					}
					t.Logf("wait after refusal %d: %s to %s", n, g[0], g[len(g)-1])
					// VIOLATION: the first refusal of a Get or Delete is told in the status, and the operator's own write wakes
					// the Proxy at once, which asks again (create has its latch on record).
					if g[0] < asked {
						t.Errorf("a Proxy came back %s after refusal %d, asked for were %s", g[0], n, asked)
					}
					if g[len(g)-1] > latest {
						t.Errorf("a Proxy came back %s after refusal %d, want at most %s", g[len(g)-1], n, latest)
					}
				}
			})
		})
	}
}

// TestQuotaWaits has a backend that is full.
func TestQuotaWaits(t *testing.T) {
	t.Parallel()
	simulate(t, prompt, func(t *testing.T, w *world) {
		creates := w.refused(w.cloud.wrap(provider.ErrQuotaExceeded, opCreate, provider.Ref{}, errors.New("no capacity")), 3*quotaRetry)
		for n := 1; n <= 2; n++ {
			g := gaps(creates, n)
			if len(g) != flock {
				t.Fatalf("%d of %d Proxies tried again after failure %d", len(g), flock, n)
			}
			t.Logf("wait after failure %d: %s to %s", n, g[0], g[len(g)-1])
			// The wait is jittered by a tenth.
			if g[0] < quotaRetry*9/10 || g[len(g)-1] > quotaRetry*5/4 {
				t.Errorf("the wait after failure %d is %s to %s, want about %s", n, g[0], g[len(g)-1], quotaRetry)
			}
		}
		// One or the other may be asking again at this very moment.
		asking := w.count(func(p *v1alpha1.Proxy) bool { return strings.HasSuffix(provisioned(p).Message, "is requested") })
		n := w.count(func(p *v1alpha1.Proxy) bool { return provisioned(p).Reason == v1alpha1.ReasonQuotaExceeded })
		if n+asking != flock || asking > flock/10 {
			t.Errorf("%d of %d say that the quota is exceeded: %s", n, flock, w.summary())
		}
	})
}

// TestTransientRetriesSpread has many Proxies fail at the same instant, over and over.
func TestTransientRetriesSpread(t *testing.T) {
	t.Parallel()
	simulate(t, prompt, func(t *testing.T, w *world) {
		creates := w.refused(w.cloud.wrap(provider.ErrTransient, opCreate, provider.Ref{}, errors.New("503 service unavailable")), 7*time.Minute)
		var spreads []time.Duration
		for n := 1; n <= 5; n++ {
			var began []time.Time
			var peers []call
			for _, mine := range creates {
				if len(mine) > n {
					began = append(began, mine[n].began)
					peers = append(peers, mine[n])
				}
			}
			if len(began) != flock {
				t.Fatalf("%d of %d Proxies tried again after failure %d", len(began), flock, n)
			}
			slices.SortFunc(began, time.Time.Compare)
			slices.SortFunc(peers, func(a, b call) int { return a.began.Compare(b.began) })
			spreads = append(spreads, began[len(began)-1].Sub(began[0]))
			g := gaps(creates, n)
			t.Logf("retry %d: %s to %s after the failure before it, all within %s, at most %d in one second", n, g[0], g[len(g)-1], spreads[n-1], busiest(peers, time.Second))
			if least := min(time.Second<<(n-1), 5*time.Minute) * 8 / 10; g[0] < least {
				t.Errorf("retry %d came %s after the failure before it, want at least %s", n, g[0], least)
			}
			if n == 5 && spreads[n-1] < 10*time.Second {
				t.Errorf("after five failures in step, %d Proxies still come within %s", flock, spreads[n-1])
			}
		}
		if spreads[len(spreads)-1] <= spreads[0] {
			t.Errorf("the retries do not spread more and more: %s", spreads)
		}
	})
}

// TestPermanentFailureIsSilent has creations refused for good.
func TestPermanentFailureIsSilent(t *testing.T) {
	t.Parallel()
	simulate(t, prompt, func(t *testing.T, w *world) {
		creates := w.refused(w.cloud.wrap(provider.ErrPermanent, opCreate, provider.Ref{}, errors.New("image does not exist")), 12*time.Minute)
		g := gaps(creates, 1)
		if len(g) != flock {
			t.Fatalf("%d of %d Proxies tried again", len(g), flock)
		}
		t.Logf("wait after the failure: %s to %s", g[0], g[len(g)-1])
		if g[0] < 9*time.Minute || g[len(g)-1] > 12*time.Minute { // ten, jittered by a tenth
			t.Errorf("the wait is %s to %s, want about ten minutes", g[0], g[len(g)-1])
		}
		looks := 0
		for _, c := range w.cloud.since(time.Time{}, opGet, opDelete) {
			switch mine := creates[c.ref.UID]; {
			case c.began.Before(mine[0].ended.Add(5 * time.Second)):
				looks++ // the operator's own writes wake it, and it has a look
			case c.began.Before(mine[1].began.Add(-5 * time.Second)):
				t.Fatalf("%s %s after the failure, long before the next try", c.op, c.began.Sub(mine[0].ended))
			}
		}
		t.Logf("%d looks right after %d failures, and then silence", looks, flock)
	})
}
