package health

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// rotating is a rig with one healthy proxy that asks for credentials of the revision in takes.
type rotating struct {
	*rig
	takes atomic.Value
}

func underRotation(t *testing.T, f func(*rotating)) {
	t.Helper()
	o := &rotating{}
	o.takes.Store("old")
	underTest(t, nil, func(r *rig) {
		o.rig = r
		r.auto = func(t Target) Result {
			if t.Credentials == nil || t.Credentials.Revision != o.takes.Load() {
				return bad(v1alpha1.ReasonProxyAuthFailed)
			}
			return good(50 * time.Millisecond)
		}
		r.start()
		o.secret("old")
		r.pass(time.Minute)
		if got := o.offered(); got != "old" {
			t.Fatalf("offered with %q before anything is rotated", got)
		}
		f(o)
	})
}

// secret makes the spec name credentials of that revision.
func (o *rotating) secret(revision string, change ...func(*fleet.Proxy)) {
	o.store.Apply(proxy("a", append(change, func(p *fleet.Proxy) {
		p.Probe.Interval = 5 * time.Minute
		p.Credentials = &provider.Credentials{Username: "u", Password: "p", Revision: revision}
	})...))
}

func (o *rotating) offered() string {
	p := o.store.Get(keyOf("a"))
	if p.Withheld() != fleet.WithheldNot {
		return ""
	}
	return p.Credentials.Revision
}

// over returns with what the proxy was offered in the meantime, in turn.
func (o *rotating) over(d time.Duration) string {
	var seen []string
	for end := o.clock.Now().Add(d); o.clock.Now().Before(end); {
		if now := o.offered(); len(seen) == 0 || seen[len(seen)-1] != now {
			seen = append(seen, now)
		}
		o.pass(100 * time.Millisecond)
	}
	return fmt.Sprintf("%q", seen)
}

func TestARotationTakesNothingOffOffer(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.secret("new")
		if got := o.over(time.Minute); got != `["old"]` {
			t.Errorf("before the proxy takes the new ones it is offered with %s", got)
		}
		o.takes.Store("new")
		if got := o.over(12 * time.Second); got != `["old" "new"]` {
			t.Errorf("then with %s", got)
		}
		if v, _ := o.engine.Verdict(keyOf("a")); v.Health != fleet.Healthy || v.Subject.CredentialRevision != "new" {
			t.Errorf("the verdict is %+v", v)
		}
		o.secret("new") // the informer's next event
		if got := o.over(10 * time.Minute); got != `["new"]` {
			t.Errorf("and then with %s", got)
		}
	})
}

func TestNewCredentialsThatWorkAreTakenSoon(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.takes.Store("new")
		o.secret("new")
		if got := o.over(11 * time.Second); got != `["old" "new"]` && got != `["new"]` {
			t.Errorf("offered with %s", got)
		}
	})
}

// A proxy that is not ours, or that takes the old ones no longer either, has two minutes.
func TestOldCredentialsLastTwoMinutes(t *testing.T) {
	outside := func(p *fleet.Proxy) { p.Mode, p.Attempt = v1alpha1.ModeExternal, 0 }
	underRotation(t, func(o *rotating) {
		o.secret("old", outside)
		o.over(10 * time.Minute)
		o.secret("new", outside)
		if got := o.over(rotationTime - time.Second); got != `["old"]` {
			t.Errorf("within two minutes offered with %s", got)
		}
		o.over(rotationProbe + 3*time.Second)
		if got := o.over(time.Hour); got != `[""]` || o.health("a") != fleet.Unhealthy {
			t.Errorf("afterwards offered with %s, %v", got, o.health("a"))
		}
	})
}

// One of ours goes on until it is handed the new ones, however long that takes, and is not probed faster for it.
func TestOldCredentialsLastUntilTheHandover(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.secret("new")
		o.over(rotationTime)
		o.mu.Lock()
		before := len(o.probes)
		o.mu.Unlock()
		if got := o.over(time.Hour); got != `["old"]` {
			t.Errorf("offered with %s", got)
		}
		o.mu.Lock()
		if n := len(o.probes) - before; n > 2*16 { // two for each interval of five minutes, which varies
			t.Errorf("%d probes in an hour", n)
		}
		o.mu.Unlock()
		o.takes.Store("new")
		if got := o.over(6 * time.Minute); got != `["old" "new"]` {
			t.Errorf("then with %s", got)
		}
		o.secret("newer")
		o.takes.Store("neither")
		o.over(rotationTime + time.Minute)
		if p := o.store.Get(keyOf("a")); p.Next != nil || o.offered() != "" {
			t.Errorf("where neither works any more: %+v", p)
		}
	})
}

func TestARotationTakenBack(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.secret("new")
		o.over(30 * time.Second)
		o.secret("old")
		if got := o.over(10 * time.Minute); got != `["old"]` {
			t.Errorf("offered with %s", got)
		}
		if p := o.store.Get(keyOf("a")); p.Next != nil {
			t.Error("still being rotated")
		}
	})
}

func TestAnotherRotationMeanwhile(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.secret("new")
		o.over(time.Minute)
		o.secret("newer")
		if got := o.over(rotationTime - 10*time.Second); got != `["old"]` {
			t.Errorf("offered with %s", got)
		}
		o.takes.Store("newer")
		if got := o.over(15 * time.Second); got != `["old" "newer"]` {
			t.Errorf("then with %s", got)
		}
	})
}

// What does not work, or is another instance by now, has nothing that could go on.
func TestOnlyWhatWorksIsRotatedGently(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.secret("new", attempt(2))
		if got := o.offered(); got != "" {
			t.Errorf("a new instance is offered with %q", got)
		}
	})
	underRotation(t, func(o *rotating) {
		o.takes.Store("neither")
		o.over(time.Hour)
		o.secret("new")
		if p := o.store.Get(keyOf("a")); p.Next != nil || p.Credentials.Revision != "new" {
			t.Errorf("an unhealthy one goes on with %s", p.Credentials.Revision)
		}
		o.takes.Store("new")
		if got := o.over(3 * time.Second); got != `["" "new"]` {
			t.Errorf("offered with %s", got)
		}
	})
}

// A proxy need not say 407 to credentials that it does not know.
func TestNewCredentialsThatAreDroppedLeaveTheOldOnes(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.mu.Lock()
		o.auto = func(t Target) Result {
			if t.Credentials.Revision != "old" {
				return bad(v1alpha1.ReasonTimeout)
			}
			return good(50 * time.Millisecond)
		}
		o.mu.Unlock()
		o.secret("new")
		if got := o.over(time.Hour); got != `["old"]` {
			t.Errorf("offered with %s", got)
		}
	})
}

// While nothing can be known, the time for the old ones does not run out.
func TestAnOutageEndsNoRotation(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.secret("new")
		o.mu.Lock()
		o.auto = func(Target) Result { return bad(v1alpha1.ReasonTimeout) }
		o.mu.Unlock()
		o.over(10 * time.Minute)
		if p := o.store.Get(keyOf("a")); p.Next == nil || p.Credentials.Revision != "old" {
			t.Errorf("%+v", p)
		}
	})
}

// A success with credentials that were taken back meanwhile is about nothing.
func TestASuccessThatComesTooLateForItsCredentials(t *testing.T) {
	underRotation(t, func(o *rotating) {
		o.mu.Lock()
		o.auto = nil
		o.mu.Unlock()
		o.secret("new")
		o.pass(11 * time.Second)
		both := o.takeAll()
		late, other := both[0], both[len(both)-1]
		if late.target.Credentials.Revision == "old" {
			late, other = other, late
		}
		if len(both) != 2 || late.target.Credentials.Revision != "new" || other.target.Credentials.Revision != "old" {
			t.Fatalf("%d probes, with %s and %s", len(both), late.target.Credentials.Revision, other.target.Credentials.Revision)
		}
		o.secret("old")
		synctest.Wait()
		before := o.store.Get(keyOf("a")).Verdict
		o.end(other, bad(v1alpha1.ReasonProxyAuthFailed))
		o.end(late, good(500*time.Millisecond))
		if p := o.store.Get(keyOf("a")); p.Verdict != before || p.Credentials.Revision != "old" {
			t.Errorf("counted: %+v", p)
		}
		o.pass(2 * time.Second)
		if again := o.take(); again.target.Credentials.Revision != "old" {
			t.Errorf("then probed with %s", again.target.Credentials.Revision)
		}
	})
}
