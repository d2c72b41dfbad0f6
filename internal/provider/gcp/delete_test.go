package gcp_test

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A creation that is still on its way cannot be removed; what comes of it is, and then it is proven.
func TestDeleteDuringTheInsertEndsWithNothing(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "while the operation is pending": time.Second, "once it shows": 3 * time.Second, "while it boots": 7 * time.Second} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, slow())
			ref, req := w.create(w.provider())
			w.advance(after)
			p := w.provider()
			w.until(t, "NotFound", func() bool {
				if err := p.Delete(t.Context(), ref); err != nil {
					t.Errorf("Delete: %v", err)
				}
				got := w.state(p, ref)
				if got == "not_found" && len(w.left()) > 0 {
					t.Fatalf("it is not found, and %q is left", w.left())
				}
				return got == "not_found"
			})
			if n := len(w.operations("delete")); n > 1 {
				t.Errorf("%d removals", n)
			}
			next := w.ref(req, 2)
			must(w.t, p.Create(t.Context(), req, next))
			w.until(t, "the next attempt running", func() bool { return w.state(p, next) == "Running" })
		})
	}
}

func TestOneRemovalIsInFlight(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Pending: time.Second, Delete: time.Minute}})
	ref, _ := w.create(w.provider())
	// Those that begin together send the same token.
	var all sync.WaitGroup
	for range 4 {
		p := w.provider()
		all.Go(func() {
			if err := p.Delete(t.Context(), ref); err != nil {
				t.Errorf("Delete: %v", err)
			}
		})
	}
	all.Wait()
	sent := w.emulator.Calls("instances.delete")
	for range 10 {
		w.advance(time.Second)
		must(w.t, w.provider().Delete(t.Context(), ref))
		w.expect(t, "meanwhile", w.provider(), ref, "Deleting")
	}
	if n, ops := w.emulator.Calls("instances.delete"), len(w.operations("delete")); n != sent || ops != 1 {
		t.Errorf("%d operations, %d calls, of which %d while it was in flight", ops, n, n-sent)
	}
	w.advance(time.Minute)
	w.expect(t, "in the end", w.provider(), ref, "not_found")
}

func TestARemovalThatFailedIsShownAndSentAgain(t *testing.T) {
	for _, code := range []string{"INTERNAL_ERROR", "PERMISSIONS_ERROR"} {
		t.Run(code, func(t *testing.T) {
			class := map[string]error{"INTERNAL_ERROR": provider.ErrTransient, "PERMISSIONS_ERROR": provider.ErrPermanent}[code]
			w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Delete: 5 * time.Second}})
			ref, _ := w.create(w.provider())
			w.emulator.InjectNext(2, gcpemulator.On("instances.delete"), late(gcpemulator.OperationError{Code: code, Message: "it did not work"}))
			must(w.t, w.provider().Delete(t.Context(), ref))
			for range 2 {
				w.advance(10 * time.Second)
				w.expect(t, "after a failure", w.provider(), ref, "Running")
				expect(t, "Delete", w.provider().Delete(t.Context(), ref), class, "", code+": it did not work")
				must(w.t, w.provider().Delete(t.Context(), ref))
			}
			w.advance(10 * time.Second)
			w.expect(t, "in the end", w.provider(), ref, "not_found")
			var tokens []string
			for _, o := range w.operations("delete") {
				tokens = append(tokens, o.ClientOperationId)
			}
			slices.Sort(tokens)
			if len(tokens) != 3 || len(slices.Compact(tokens)) != 3 {
				t.Errorf("the tokens are %q, want three", tokens)
			}
		})
	}
}

// The disk of a VM that went without it is an instance, and Delete removes it.
func TestADiskThatIsLeft(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Delete: 5 * time.Second}})
	p := w.provider()
	ref, req := w.create(p)
	vm := w.get(p, ref)
	w.emulator.LoseMain(ref.ID)
	w.expect(t, "without its VM", p, ref, "Terminated")
	disk := w.get(p, ref)
	if disk.Identity == vm.Identity || disk.Marks.UID != req.UID || disk.Marks.Attempt != 1 || disk.Message == "" || disk.IP != "" {
		t.Errorf("it is %+v", disk)
	}
	w.advance(past)
	if shown, _ := w.list(p); !slices.Equal(shown, []string{"Terminated " + ref.ID}) {
		t.Errorf("the list shows %q", shown)
	}
	must(w.t, p.Create(t.Context(), req, w.ref(req, 1))) // what stands there is the attempt's own
	if n := len(w.operations("insert")); n != 1 {
		t.Errorf("%d creations", n)
	}
	expect(t, "Create of the next attempt", p.Create(t.Context(), req, w.ref(req, 2)), provider.ErrTransient, provider.ReasonAttemptMismatch)
	for _, other := range []provider.Ref{
		{ID: ref.ID, UID: ref.UID, Attempt: 2}, {ID: ref.ID, UID: ref.UID, Attempt: 1, Identity: vm.Identity},
	} {
		must(w.t, p.Delete(t.Context(), other))
	}
	if n := w.emulator.Calls("disks.delete"); n != 0 {
		t.Errorf("%d removals of what was not named", n)
	}
	w.emulator.InjectOnce(gcpemulator.On("disks.delete"), late(gcpemulator.OperationError{Code: "INTERNAL_ERROR", Message: "m"}))
	must(w.t, p.Delete(t.Context(), provider.Ref{ID: ref.ID, UID: ref.UID, Attempt: 1, Identity: disk.Identity}))
	w.expect(t, "while it is removed", p, ref, "Deleting")
	must(w.t, p.Delete(t.Context(), ref))
	if n := w.emulator.Calls("disks.delete"); n != 1 {
		t.Errorf("%d removals in flight", n)
	}
	w.advance(10 * time.Second)
	expect(t, "Delete after one that failed", p.Delete(t.Context(), ref), provider.ErrTransient, "", "INTERNAL_ERROR")
	w.advance(10 * time.Second)
	w.expect(t, "in the end", p, ref, "not_found")
	if left := w.left(); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}

// Between the look and the effect another VM can have taken the name; it has another number.
func TestDeleteSparesWhatHasTakenTheName(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.InjectOnce(gcpemulator.On("instances.delete"), gcpemulator.Fault{OnCall: func() {
		w.emulator.Vanish(ref.ID)
		if err := w.provider().Create(t.Context(), req, w.ref(req, 2)); err != nil {
			t.Errorf("Create: %v", err)
		}
	}})
	must(w.t, p.Delete(t.Context(), ref))
	if inst := w.get(p, ref); inst.Marks.Attempt != 2 || inst.State != provider.StateRunning {
		t.Errorf("it is %+v", inst)
	}
}

// Reads may be behind: what they still show after its removal has ended is not removed once more.
func TestAReadThatIsBehindRemovesNothing(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	shown, err := json.Marshal(w.vm(ref))
	must(w.t, err)
	must(w.t, p.Delete(t.Context(), ref))
	w.emulator.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 200, Body: string(shown)})
	n := w.emulator.Calls("instances.delete")
	must(w.t, p.Delete(t.Context(), ref))
	if got := w.emulator.Calls("instances.delete"); got != n {
		t.Errorf("it was removed again")
	}
}

// A VM that is protected by hand is not removed, and that is said.
func TestARefusedRemovalIsAnError(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	w.emulator.InjectOnce(gcpemulator.On("instances.delete"), gcpemulator.Fault{Status: 400, Reason: "invalid", Message: "Resource cannot be deleted if it's protected against deletion."})
	expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrPermanent, "", "protected")
	must(w.t, p.Delete(t.Context(), ref))
	w.expect(t, "later", p, ref, "not_found")
}
