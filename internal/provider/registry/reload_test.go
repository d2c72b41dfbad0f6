package registry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// inWorld runs test in a bubble of synctest: a goroutine that is left fails it, and time passes by itself.
func inWorld(t *testing.T, file string, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, file)
		test(w)
		w.end()
	})
}

// pass begins a pass that is about to put something on record, and returns how it ends; nil when there is no place.
func (w *world) pass(h registry.Handle) (ctx context.Context, end func()) {
	ctx, end = instrument.WithPass(w.t.Context())
	if err := instrument.Reserve(ctx, h.Provider, provider.Ref{ID: "x/1"}); err != nil {
		end()
		return nil, nil
	}
	return ctx, end
}

func TestWhatHasNotChangedIsNotTouched(t *testing.T) {
	inWorld(t, "a scope=x; b scope=y; c scope=z", func(w *world) {
		before := w.r.All()
		w.wants("the same in another order", w.reload("c scope=z; a scope=x; b scope=y"), "")
		w.wants("one changed, one removed, one added", w.reload("b scope=y maxInstances=3; c scope=z; d gcp scope=u"), "+d ~b -a")
		after := w.r.All()
		if len(after) != 3 || after[0].Provider == before[1].Provider || after[0].MaxInstances != 3 || after[1].Provider != before[2].Provider ||
			after[1].Revision != before[2].Revision || after[2].Type != "gcp" {
			w.t.Errorf("in force: %+v", after)
		}
		if w.builds != 5 {
			w.t.Errorf("%d providers were built, want 3 and the 2 that are new", w.builds)
		}
		synctest.Wait()
		for i, want := range []int{1, 1, 0, 0, 0} {
			if got := w.made[i].closes(); got != want {
				w.t.Errorf("provider %d is closed %d times, want %d", i, got, want)
			}
		}
		w.wants("nothing at all", w.reload(""), "-b -c -d")
		if len(w.r.All()) != 0 {
			w.t.Error("removed entries are in force")
		}
	})
}

func TestAFileThatCannotBeBuiltChangesNothing(t *testing.T) {
	inWorld(t, "a scope=x; b scope=y", func(w *world) {
		before := w.r.All()
		got := w.reload("a scope=x2; c scope=z; d fail=true")
		if got.Err == nil || !strings.Contains(got.Err.Error(), `provider "d": no such key file`) || len(got.Added)+len(got.Changed)+len(got.Removed)+len(got.Refused) > 0 {
			w.t.Errorf("got %+v", got)
		}
		after := w.r.All()
		if len(after) != 2 || after[0].Provider != before[0].Provider || after[1].Provider != before[1].Provider {
			w.t.Errorf("in force: %+v", after)
		}
		if w.asked != 0 {
			w.t.Error("Proxies were asked for although nothing could change")
		}
	})
}

func TestAChangeThatWouldDisownAnInstanceInUseIsRefused(t *testing.T) {
	const before = "a scope=x site=s; b scope=y; c scope=x"
	for _, tc := range []struct{ reason, file, want, text string }{
		{"another scope", "a scope=x2 site=s; b scope=y; c scope=x", "!a:InUse", "x/1 is in use and would be out of the entry's scope: want x2"},
		{"another type", "a gcp scope=x2 site=s; b scope=y; c scope=x", "!a:InUse", "x/1 is in use and would be out of the entry's scope: want x2"},
		{"another site", "a scope=x site=s2; b scope=y; c scope=x", "!a:InUse", `x/1 is in use and would be looked for elsewhere: in "s2", not in "s"`},
		{"no way to tell", "a scope=x site=s blunt=true; b scope=y; c scope=x", "!a:InUse", "instances are in use, and type local cannot tell whether they stay in its scope"},
		{"everything else takes effect", "a scope=x2 site=s; b scope=y2; d scope=d", "+d ~b -c !a:InUse", "x/1 is in use and would be out of the entry's scope: want x2"},
		{"the same scope", "a scope=x site=s maxInstances=1; b scope=y; c scope=x", "~a", ""},
		{"one more site", "a scope=x site=s,t; b scope=y; c scope=x", "~a", ""},
		{"sites no more", "a scope=x; b scope=y; c scope=x", "~a", ""},
		{"another type of the same scope", "a gcp scope=x site=s; b scope=y; c scope=x", "~a", ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			inWorld(t, before, func(w *world) {
				w.record("a", "x/2", "x/1")
				old := w.of("a")
				got := w.reload(tc.file)
				w.wants(tc.reason, got, tc.want)
				if tc.text == "" || len(got.Refused) != 1 {
					return
				}
				if got.Refused[0].Text != tc.text {
					w.t.Errorf("text %q, want %q", got.Refused[0].Text, tc.text)
				}
				h, _ := w.r.Lookup("a")
				if _, err := h.Provider.Get(w.t.Context(), provider.Ref{ID: "x/1"}); err != nil || w.of("a") != old {
					w.t.Errorf("the old one does not serve: %v", err)
				}
				w.record("a")
				if got := w.reload(tc.file); len(got.Refused) > 0 || w.of("a") == old {
					w.t.Errorf("nothing is in use any more, and it is refused: %v", got.Refused)
				}
			})
		})
	}
}

func TestARemovedEntryThatComesBackMustNotDisownEither(t *testing.T) {
	inWorld(t, "a scope=x site=s", func(w *world) {
		w.record("a", "x/1")
		w.wants("removed although in use", w.reload(""), "-a")
		w.wants("back with another scope", w.reload("a scope=y"), "!a:InUse")
		w.wants("back at another site", w.reload("a scope=x site=s2"), "!a:InUse")
		if _, ok := w.r.Lookup("a"); ok {
			w.t.Error("a refused entry is in force")
		}
		w.wants("back as it was", w.reload("a scope=x site=s"), "+a")
	})
}

func TestWithoutAnAnswerNothingIsExchanged(t *testing.T) {
	inWorld(t, "a scope=x", func(w *world) {
		w.askErr = errors.New("apiserver: request id: 1234 timed out")
		got := w.reload("a scope=y; b scope=z")
		w.wants("the server does not answer", got, "!a:InUseUnknown !b:InUseUnknown")
		if w.scope("a") != "x" || len(got.Refused) > 0 && strings.Contains(got.Refused[0].Text, "1234") {
			w.t.Errorf("scope %s, %q", w.scope("a"), got.Refused)
		}
		w.askErr = nil
		w.wants("it answers again", w.reload("a scope=y; b scope=z"), "+b ~a")
	})
}

// TestAnIntentInBetweenIsSeen: a pass that had begun puts an instance on record after it was asked what is in use.
func TestAnIntentInBetweenIsSeen(t *testing.T) {
	inWorld(t, "a scope=x", func(w *world) {
		h, _ := w.r.Lookup("a")
		_, end := w.pass(h)
		done := make(chan registry.Result)
		go func() { done <- w.reload("a scope=y") }()
		synctest.Wait()
		if ctx, _ := w.pass(h); ctx != nil {
			w.t.Error("a pass began while the entry is being replaced")
		}
		w.record("a", "x/1")
		end()
		w.wants("recorded in between", <-done, "!a:InUse")
		if ctx, end := w.pass(h); ctx == nil || w.scope("a") != "x" {
			w.t.Error("the old entry does not go on")
		} else {
			end()
		}
	})
}

// TestNoPassBeginsOnAnEntryThatWasReplaced: it has the handle from before.
func TestNoPassBeginsOnAnEntryThatWasReplaced(t *testing.T) {
	inWorld(t, "a scope=x; b scope=x", func(w *world) {
		a, _ := w.r.Lookup("a")
		b, _ := w.r.Lookup("b")
		w.wants("changed and removed", w.reload("a scope=y"), "~a -b")
		for _, h := range []registry.Handle{a, b} {
			if ctx, _ := w.pass(h); ctx != nil {
				w.t.Errorf("a pass began on the old %s", h.Name)
			}
			if _, err := h.Provider.Get(w.t.Context(), provider.Ref{ID: "x/1"}); provider.Reason(err) != provider.ReasonBusy {
				w.t.Errorf("a call on the old %s: %v, want it to be made again soon", h.Name, err)
			}
		}
	})
}

func TestACallInFlightEndsOnTheOldClient(t *testing.T) {
	inWorld(t, "a scope=x; b scope=y", func(w *world) {
		old := map[string]*scoped{"a": w.of("a"), "b": w.of("b")}
		hold := make(chan struct{})
		calls := make(chan error)
		for name, s := range old {
			s.hold = hold
			h, _ := w.r.Lookup(name)
			go func() {
				_, err := h.Provider.Get(w.t.Context(), provider.Ref{ID: s.scope + "/1"})
				calls <- err
			}()
		}
		synctest.Wait()
		done := make(chan registry.Result, 1)
		go func() { done <- w.reload("a scope=z") }()
		<-time.After(callTimeout)
		if len(done) > 0 || w.scope("a") != "x" || old["a"].closes()+old["b"].closes() > 0 {
			w.t.Error("it did not wait for the call")
		}
		if _, ok := w.r.Lookup("b"); ok {
			w.t.Error("the removed entry is in force")
		}
		close(hold)
		for range old {
			if err := <-calls; err != nil {
				w.t.Error(err)
			}
		}
		w.wants("after the call", <-done, "~a -b")
		synctest.Wait()
		if w.scope("a") != "z" || old["a"].closes() != 1 || old["b"].closes() != 1 {
			w.t.Error("the old ones are not closed, or still in force")
		}
	})
}

func TestACallThatDoesNotEndHoldsUpItsEntryAlone(t *testing.T) {
	inWorld(t, "a scope=x; b scope=y", func(w *world) {
		old := w.of("a")
		old.hold = make(chan struct{})
		h, _ := w.r.Lookup("a")
		call := make(chan error)
		go func() {
			_, err := h.Provider.Get(w.t.Context(), provider.Ref{ID: "x/1"})
			call <- err
		}()
		synctest.Wait()
		began := time.Now()
		w.wants("it hangs", w.reload("a scope=x2; b scope=y2"), "~b !a:Busy")
		if took := time.Since(began); took != 2*callTimeout || w.scope("a") != "x" || w.scope("b") != "y2" {
			w.t.Errorf("took %s; in force are %s and %s", took, w.scope("a"), w.scope("b"))
		}
		close(old.hold)
		if err := <-call; err != nil {
			w.t.Error(err)
		}
		if ctx, end := w.pass(h); ctx == nil {
			w.t.Error("the old entry does not go on")
		} else {
			end()
		}
		w.wants("it has ended", w.reload("a scope=x2; b scope=y2"), "~a")
	})
}

func TestTheEndOfTheProcessLeavesTheOldOnes(t *testing.T) {
	inWorld(t, "a scope=x", func(w *world) {
		h, _ := w.r.Lookup("a")
		_, end := w.pass(h)
		ctx, cancel := context.WithCancel(w.t.Context())
		time.AfterFunc(time.Second, cancel)
		w.wants("cancelled", w.r.Reload(ctx, w.parse("a scope=y"), w.inUse), "!a:Busy")
		end()
		if err := w.r.Close(); err != nil {
			w.t.Error(err)
		}
		w.wants("after Close", w.reload("b scope=z"), "!b:Busy")
		if len(w.r.All()) != 0 {
			w.t.Error("a closed registry hands out providers")
		}
	})
}

func TestTheEndOfTheProcessDoesNotWaitForPasses(t *testing.T) {
	inWorld(t, "a scope=x", func(w *world) {
		h, _ := w.r.Lookup("a")
		_, end := w.pass(h)
		defer end()
		w.wants("removed during a pass", w.reload(""), "-a")
		began := time.Now()
		if err := w.r.Close(); err != nil || time.Since(began) > 0 {
			w.t.Errorf("Close took %s: %v", time.Since(began), err)
		}
	})
}

func TestARemovedEntryIsClosedAfterItsLastPassAndNotMuchLater(t *testing.T) {
	inWorld(t, "a scope=x", func(w *world) {
		h, _ := w.r.Lookup("a")
		old := w.of("a")
		ctx, end := w.pass(h)
		w.wants("removed during a pass", w.reload(""), "-a")
		<-time.After(9 * callTimeout)
		if err := h.Provider.Create(ctx, provider.CreateRequest{}, provider.Ref{ID: "x/1"}); err != nil || old.closes() > 0 {
			w.t.Errorf("a pass that had begun does not get to its end: %v", err)
		}
		<-time.After(2 * callTimeout)
		if old.closes() != 1 {
			w.t.Error("a pass that never ends keeps it open")
		}
		end()
	})
}

// TestTheLastWordOfARemovedEntry is said after its last pass, however long that takes, and not where the entry is back: what is
// shown of it is the new one's by then.
func TestTheLastWordOfARemovedEntry(t *testing.T) {
	inWorld(t, "a scope=x; b scope=y; c scope=z", func(w *world) {
		a, _ := w.r.Lookup("a")
		b, _ := w.r.Lookup("b")
		_, endA := w.pass(a)
		_, endB := w.pass(b)
		w.wants("removed during passes", w.reload(""), "-a -b -c")
		if got := w.gone(); got != "c" {
			w.t.Errorf("gone are %q, want c, which nobody was using", got)
		}
		<-time.After(11 * callTimeout) // they are closed by now
		endA()
		if got := w.gone(); got != "a" {
			w.t.Errorf("gone are %q, want a, whose pass has ended", got)
		}
		time.AfterFunc(time.Second, endB)
		w.wants("b comes back", w.reload("b scope=y"), "+b")
		if got := w.gone(); got != "" && got != "b" { // b in the moment between its last pass and its return
			w.t.Errorf("gone are %q, want b at most", got)
		}
	})
}

// TestAnEntryComesBackAfterTheLastPassOfTheOneBefore: that one can still put something on record.
func TestAnEntryComesBackAfterTheLastPassOfTheOneBefore(t *testing.T) {
	inWorld(t, "a scope=x", func(w *world) {
		h, _ := w.r.Lookup("a")
		_, end := w.pass(h)
		w.wants("removed during a pass", w.reload(""), "-a")
		time.AfterFunc(time.Second, func() {
			w.record("a", "x/1")
			end()
		})
		w.wants("back with another scope", w.reload("a scope=y"), "!a:InUse")
	})
}
