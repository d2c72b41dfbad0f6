package lease

import (
	"testing"
	"time"
)

func TestProxiesWithACapAreKeptBackAfterTheStart(t *testing.T) {
	leading := false
	f := newFixture(t, func(o *Options) { o.StartupHold, o.MayGrant = time.Minute, func() bool { return leading } })
	f.put("capped", withCap(1))
	f.clock.Step(time.Hour) // as a standby
	leading = true
	f.ledger.sweep() // it begins without anybody asking
	f.clock.Step(20 * time.Second)
	if got, want := f.refused(t, ask("")), (NoMatchError{Considered: 1, Unhealthy: 1, FreeAt: f.clock.Now().Add(40 * time.Second)}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	f.put("open")
	if got := f.acquire(t, ask("")).Proxy.Key.Name; got != "open" {
		t.Errorf("leased %s", got)
	}
	f.clock.Step(40*time.Second - 1)
	f.put("late", withCap(1))
	if got := f.acquire(t, ask("")).Proxy.Key.Name; got != "open" {
		t.Errorf("leased %s during the hold", got)
	}
	f.clock.Step(1)
	if got := f.acquire(t, ask("")).Proxy.Key.Name; got == "open" {
		t.Error("the hold did not end")
	}
}
