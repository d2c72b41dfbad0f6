package lease

import (
	"context"
	"maps"
	"testing"
	"time"
)

func TestStats(t *testing.T) {
	f := newFixture(t)
	want := func(when string, want Stats) {
		t.Helper()
		got := f.ledger.Stats()
		reports := got.Reports
		got.Reports = nil
		wanted := want.Reports
		want.Reports = nil
		if got.Live != want.Live || got.Cooldowns != want.Cooldowns || got.Proxies != want.Proxies || got.Ended != want.Ended {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
		if wanted != nil && !maps.Equal(reports, wanted) {
			t.Errorf("%s: reports %v, want %v", when, reports, wanted)
		}
	}
	want("empty", Stats{Reports: map[Result]uint64{ResultOK: 0, ResultBanned: 0, ResultRateLimited: 0}})
	f.put("free")
	f.put("full", withCap(1))
	f.put("tired")
	f.put("cordoned", cordoned)
	var held []Lease
	for range 3 { // one on each
		held = append(held, f.acquire(t, ask("")))
	}
	on := func(name string) Lease {
		for _, l := range held {
			if l.Proxy.Key.Name == name {
				return l
			}
		}
		t.Fatalf("no lease on %s", name)
		return Lease{}
	}
	f.report(t, on("tired"), "")
	f.report(t, on("free"), "shop.example")
	for _, r := range []Result{ResultOK, ResultRateLimited} {
		if err := f.ledger.Report(on("tired").ID, "crawler", r, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.ledger.Report("unknown", "crawler", ResultBanned, ""); err == nil {
		t.Error("a report on an unknown lease is taken")
	}
	want("three leases, two cooldowns", Stats{
		Live: 3, Cooldowns: 2, Proxies: Standings{Free: 1, AtCapacity: 1, Cooling: 1, Unoffered: 1},
		Reports: map[Result]uint64{ResultOK: 1, ResultBanned: 2, ResultRateLimited: 1},
	})
	if err := f.ledger.Release(on("tired").ID, "crawler"); err != nil {
		t.Fatal(err)
	}
	f.put("full", withCap(1), attempt(2))
	want("one is released, one's instance is another", Stats{
		Live: 1, Cooldowns: 2, Proxies: Standings{Free: 2, Cooling: 1, Unoffered: 1}, Ended: Ended{Released: 1, Gone: 1},
	})
	f.clock.Step(time.Minute)
	want("the last one has run out", Stats{
		Cooldowns: 2, Proxies: Standings{Free: 2, Cooling: 1, Unoffered: 1}, Ended: Ended{Released: 1, Gone: 1, Expired: 1},
	})
	f.clock.Step(DefaultCooldownWindow)
	f.fleet.Remove(name("cordoned"), "uid-cordoned")
	want("nothing rests", Stats{Proxies: Standings{Free: 3}, Ended: Ended{Released: 1, Gone: 1, Expired: 1}})
}

// TestStatsOfThoseKeptBack: the fleet would have them leased, the ledger does not.
func TestStatsOfThoseKeptBack(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.StartupHold = time.Minute })
	f.put("free")
	f.put("capped", withCap(3))
	key := f.put("withdrawn")
	f.ledger.Withdraw(key)
	f.acquire(t, ask("")) // the hold begins
	if got, want := f.ledger.Stats().Proxies, (Standings{Free: 1, Unoffered: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	f.clock.Step(time.Minute)
	if got, want := f.ledger.Stats().Proxies, (Standings{Free: 2, Unoffered: 1}); got != want {
		t.Errorf("after the hold: %+v, want %+v", got, want)
	}
}

func TestStatsOfThoseWhoWait(t *testing.T) {
	waiting(t, func(t *testing.T, w *waitRoom) {
		w.put("a", withCap(1))
		w.acquire(t, ask(""))
		req := ask("")
		req.Wait = time.Second
		out := make(chan served, 1)
		w.send(context.Background(), "first", req, out)
		if n := w.ledger.Stats().Waiting; n != 1 {
			t.Errorf("%d wait", n)
		}
		<-out
		if n := w.ledger.Stats().Waiting; n != 0 {
			t.Errorf("%d wait after the end", n)
		}
	})
}
