package providerhealth_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

// TestFiftyTargetsOfWhichTwentyHang: one entry whose Checker keeps to the contract, as that of kvm does.
func TestFiftyTargetsOfWhichTwentyHang(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := &backend{}
	b.does(func(ctx context.Context) (out []provider.TargetStatus) {
		<-ctx.Done() // the twenty
		for i, name := range hosts(50) {
			if i < 20 {
				out = append(out, down(name, provider.CheckTimeout, "it has not answered"))
			} else {
				out = append(out, up(name))
			}
		}
		return out
	})
	x.entry("kvm", "1", b)
	began := time.Now()
	x.start(t.Context())
	obj := x.shows("kvm", "False Timeout 30/50")
	if took := time.Since(began); took > timeout+time.Second {
		t.Errorf("the round took %s, its timeout is %s", took, timeout)
	}
	want := "20 of 50 targets are not ready: Timeout (20): host-000, host-001, host-002, host-003, host-004 and 15 more"
	if c := condition(t, obj, v1alpha1.ConditionReady); c.Message != want {
		t.Errorf("message: %q", c.Message)
	}
	for i, target := range obj.Status.Targets {
		if target.Ready != (i >= 20) || !target.Ready && target.Reason != provider.CheckTimeout {
			t.Errorf("target: %+v", target)
		}
	}
}

// TestFiftyEntriesOfWhichTwentyHang: the twenty ignore their context, and never return.
func TestFiftyEntriesOfWhichTwentyHang(t *testing.T) { // not parallel, for it counts goroutines
	x := newRig(t)
	release := make(chan struct{})
	free := func() { close(release) }
	defer func() { free() }()
	backends := make([]*backend, 50)
	for i := range backends {
		backends[i] = newBackend(up("a"))
		x.entry(fmt.Sprintf("e%02d", i), "1", backends[i])
	}
	x.start(t.Context())
	x.until("all are shown", func() bool { return len(x.seen.counts()) == 50 })
	for _, b := range backends[:20] {
		b.does(func(context.Context) []provider.TargetStatus { <-release; return nil })
	}
	began := time.Now()
	x.round() // waits for all 50
	if took := time.Since(began); took > timeout+2*time.Second {
		t.Errorf("the round took %s, its timeout is %s", took, timeout)
	}
	for i := range backends {
		want := "True TargetsReady 1/1"
		if i < 20 {
			want = "False Timeout 0/1"
		}
		x.shows(fmt.Sprintf("e%02d", i), want)
	}
	goroutines := runtime.NumGoroutine()
	for range 10 {
		x.round()
	}
	x.until("there are no more goroutines than ten rounds before", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	for i, b := range backends[:20] {
		if running, peak := b.counts(); running != 1 || peak != 1 {
			t.Errorf("checks of entry %d under way: %d, at most %d", i, running, peak)
		}
	}
	x.shows("e00", "False Timeout 0/1")
	x.shows("e49", "True TargetsReady 1/1")

	// Once they return, they are asked again. What they say late is not taken.
	free()
	free = func() {}
	for _, b := range backends[:20] {
		b.answers(up("a"))
	}
	x.until("all have returned", func() bool {
		n := 0
		for _, b := range backends {
			running, _ := b.counts()
			n += running
		}
		return n == 0
	})
	x.round()
	x.until("they are asked again", func() bool { x.m.Refresh(); return x.series.all()[x.name("e00")+"/a"] })
	x.shows("e00", "True TargetsReady 1/1")
}

// An entry whose first check hangs has no targets yet.
func TestAnEntryThatHangsFromTheBeginning(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := &backend{}
	release := make(chan struct{})
	defer close(release)
	b.does(func(context.Context) []provider.TargetStatus { <-release; return nil })
	x.entry("kvm", "1", b)
	x.start(t.Context())
	obj := x.shows("kvm", "False Timeout 0/0")
	if c := condition(t, obj, v1alpha1.ConditionReady); c.Message != "the check did not return within 2s" {
		t.Errorf("message: %q", c.Message)
	}
	x.until("it is told", func() bool { return x.logs.count("did not return within 2s", "NotReady") == 1 })

	// Whoever mends the entry does not wait for the old Checker, and meanwhile nothing waits for it.
	x.entry("added", "1", newBackend(up("a")))
	x.entry("kvm", "2", newBackend(up("a")))
	x.m.Refresh()
	x.shows("added", "True TargetsReady 1/1")
	x.shows("kvm", "True TargetsReady 1/1")
}

// Edits of an entry whose Checkers hang do not pile them up.
func TestRevisionsThatHangDoNotPileUp(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := &backend{}
	release := make(chan struct{})
	defer close(release)
	b.does(func(context.Context) []provider.TargetStatus { <-release; return nil })
	x.start(t.Context())
	for i := range 10 {
		x.entry("kvm", fmt.Sprint(i), b)
		x.barrier()
	}
	x.barrier()
	if _, peak := b.counts(); peak > 3 || peak < 2 {
		t.Errorf("%d checks ran at a time", peak)
	}
}

// A revision that comes back is checked anew, whatever became of the check of its first time.
func TestARevisionThatComesBackIsChecked(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	hangs := &backend{}
	asked, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	hangs.does(func(context.Context) []provider.TargetStatus { close(asked); <-release; return nil })
	x.entry("cloud", "1", hangs)
	x.start(t.Context())
	<-asked
	x.entry("cloud", "2", newBackend(up("second")))
	x.m.Refresh()
	x.shows("cloud", "True TargetsReady 1/1")
	x.entry("cloud", "1", newBackend(down("third", provider.CheckForbidden, "no")))
	x.m.Refresh()
	x.shows("cloud", "False Forbidden 0/1")
}

func TestAnAnswerAboutAnotherRevisionIsDropped(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := &backend{}
	asked, release := make(chan struct{}), make(chan struct{})
	b.does(func(context.Context) []provider.TargetStatus {
		close(asked)
		<-release
		return []provider.TargetStatus{down("old", provider.CheckUnauthorized, "old key")}
	})
	x.entry("cloud", "1", b)
	x.start(t.Context())
	<-asked
	x.entry("cloud", "2", newBackend(up("new")))
	close(release)
	x.until("the answer is dropped", func() bool { return x.logs.count("is dropped", x.name("cloud")) == 1 })
	x.settled()
	obj := x.shows("cloud", "True TargetsReady 1/1")
	if obj.Status.Revision != "2" || obj.Status.Targets[0].Target != "new" {
		t.Errorf("status: %+v", obj.Status)
	}
	if got := x.series.all(); len(got) != 1 {
		t.Errorf("series: %v", got)
	}
	if x.logs.count("old key") > 0 {
		t.Errorf("log:\n%s", x.logs)
	}
}

func TestAnAnswerAboutARemovedEntryIsDropped(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := &backend{}
	asked, release := make(chan struct{}), make(chan struct{})
	b.does(func(context.Context) []provider.TargetStatus {
		close(asked)
		<-release
		return []provider.TargetStatus{up("a")}
	})
	x.entry("cloud", "1", b)
	x.start(t.Context())
	<-asked
	x.set.remove(x.name("cloud"))
	close(release)
	x.until("the answer is dropped", func() bool { return x.logs.count("is dropped", x.name("cloud")) == 1 })
	x.settled()
	if x.get("cloud") != nil || len(x.series.all()) > 0 || len(x.seen.counts()) > 0 {
		t.Errorf("series: %v", x.series.all())
	}
}

func TestAPanicStaysInItsEntry(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("a"))
	x.entry("bad", "1", b)
	x.entry("good", "1", newBackend(up("a")))
	x.start(t.Context())
	x.shows("bad", "True TargetsReady 1/1")
	b.does(func(context.Context) []provider.TargetStatus { panic("the password is hunter2") })
	x.round()
	x.shows("bad", "False CheckPanicked 0/1")
	x.shows("good", "True TargetsReady 1/1")
	b.does(func(context.Context) []provider.TargetStatus {
		var none []provider.TargetStatus
		return none[1:2]
	})
	x.round()
	if x.logs.count("hunter2") > 0 || x.logs.count("panicked", x.name("bad"), "stack") < 2 || x.logs.count("slice bounds out of range") < 1 {
		t.Errorf("log:\n%s", x.logs)
	}
	b.answers(up("a"))
	x.round()
	x.shows("bad", "True TargetsReady 1/1")
}

func TestNothingIsLeftRunning(t *testing.T) { // not parallel, for it looks at goroutines
	x := newRig(t)
	for i := range 5 {
		b := &backend{}
		b.does(func(ctx context.Context) []provider.TargetStatus {
			<-ctx.Done()
			return []provider.TargetStatus{up("a")}
		})
		x.entry(fmt.Sprintf("e%d", i), "1", b)
	}
	running := goleak.IgnoreCurrent()
	x.start(t.Context())
	x.until("they are asked", func() bool { return x.set.rounds() > 0 })
	x.stop()
	if got := x.seen.counts(); len(got) > 0 {
		t.Errorf("answers that the end brought about were taken: %v", got)
	}
	goleak.VerifyNone(t, running, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"), goleak.IgnoreAnyFunction("internal/poll.runtime_pollWait"))
}

// The gate of a target orders what it hears by when it was asked: a check that hangs is as old as it is.
func TestWhoeverWasToldOfTheBeginningIsToldOfTheEnd(t *testing.T) {
	t.Parallel()
	var log atomicString
	x := newRig(t, func(_ *rig, o *providerhealth.Options) {
		n := 0
		o.OnCheck = func(registry.Handle) func([]provider.TargetStatus) {
			n++
			mine := fmt.Sprint(n)
			log.store(log.load() + " begin" + mine)
			return func(s []provider.TargetStatus) { log.store(log.load() + " " + mine + s[0].Reason) }
		}
	})
	b := newBackend(up("a"))
	x.entry("cloud", "1", b)
	x.start(t.Context())
	x.until("the first check", func() bool { return log.load() == " begin1 1Reachable" })
	release := make(chan struct{})
	b.does(func(context.Context) []provider.TargetStatus { <-release; return nil })
	x.m.Refresh()
	x.until("it is late", func() bool { return log.load() == " begin1 1Reachable begin2 2Timeout" })
	x.m.Refresh()
	x.until("it still is", func() bool { return log.load() == " begin1 1Reachable begin2 2Timeout 2Timeout" })
	b.answers(up("a"))
	close(release)
	x.until("it has returned", func() bool { running, _ := b.counts(); return running == 0 })
	x.until("the next check", func() bool {
		x.m.Refresh()
		_, after, began := strings.Cut(log.load(), " begin3") // another one may begin before its answer is told
		return began && strings.Contains(after, " 3Reachable")
	})
}
