package gcp_test

import (
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A list need not show yet what has just been created.
func TestAListThatLagsTakesNoPortAway(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{ListLag: 50 * time.Second})
	w.create(p)
	w.minutes(p, 3)
	w.create(p, port(8080))
	for range 12 {
		w.advance(5 * time.Second)
		w.list(p)
		w.expectOpen(t, "while the list lags", "3128,8080")
	}
	w.minutes(p, 5)
	w.expectOpen(t, "later", "3128,8080")
}

// What a list has shown counts from then on: a port is closed with the list after the last VM, however young that was.
func TestThePortOfAYoungVMIsClosedWithIt(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p)
	ref, _ := w.create(p, port(8080))
	w.list(p)
	must(w.t, p.Delete(t.Context(), ref))
	w.list(p)
	w.expectOpen(t, "after the next list", "3128")
}

// A disk that is listed without its VM may be one whose VM is about to come.
func TestADiskClosesNoPort(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	ref, _ := w.create(p)
	w.emulator.LoseMain(ref.ID)
	w.list(p)
	w.expectOpen(t, "while the disk is young", "3128")
	w.minutes(p, 3)
	w.expectOpen(t, "later", "none")
}

// A list that another one has overtaken says nothing any more.
func TestAListThatWasOvertakenClosesNoPort(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p)
	reached, release := w.emulator.HoldAnswer(gcpemulator.On("instances.aggregatedList"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.ListByTag(t.Context())
	}()
	<-reached
	w.advance(time.Second)
	w.create(p, port(8080))
	w.list(p)
	release()
	<-done
	w.expectOpen(t, "after both", "3128,8080")
}

// What another process of this operator has opened since the last list stays open when this one opens more.
func TestAPortThatAnotherProcessHasOpenedStaysOpen(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p)
	w.minutes(p, 3)
	w.create(w.provider(), port(9090))
	w.advance(10 * time.Minute) // what p knows of the rule has expired
	w.create(p, port(8080))
	w.expectOpen(t, "without a list", "3128,8080,9090")
}

// Without VMs and without a rule there is nothing to do.
func TestNoRuleIsRemovedThatIsNotThere(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.minutes(p, 3)
	if n := w.emulator.Calls("firewalls.delete"); n != 0 {
		t.Errorf("%d removals", n)
	}
}
