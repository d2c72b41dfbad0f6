package gcp_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func late(errs ...gcpemulator.OperationError) gcpemulator.Fault {
	return gcpemulator.Fault{Late: &gcpemulator.Late{Errors: errs}}
}

// How a creation ended reaches whoever asks, from a process that has nothing to do with the one that sent it.
func TestHowACreationFailed(t *testing.T) {
	one := func(code, message string) []gcpemulator.OperationError {
		return []gcpemulator.OperationError{{Code: code, Message: message}}
	}
	for _, tc := range []struct {
		reason string
		errs   []gcpemulator.OperationError
		status int32
		class  error
		says   []string
	}{
		{"no capacity", one("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources."), 0, provider.ErrQuotaExceeded, []string{"ZONE_RESOURCE_POOL_EXHAUSTED: The zone does not"}},
		{"no capacity, with details", gcpemulator.Stockout("us-central1-a").Errors, 0, provider.ErrQuotaExceeded, []string{"ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS: The zone 'us-central1-a'"}},
		{"no quota", one("QUOTA_EXCEEDED", "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-central1."), 0, provider.ErrQuotaExceeded, []string{"QUOTA_EXCEEDED: Quota 'CPUS' exceeded. Limit: 24.0"}},
		{"no quota with the status of a rate limit", one("QUOTA_EXCEEDED", "x"), http.StatusTooManyRequests, provider.ErrQuotaExceeded, nil},
		{"no addresses", one("IP_SPACE_EXHAUSTED", "IP space of 'default' is exhausted."), 0, provider.ErrQuotaExceeded, []string{"IP_SPACE_EXHAUSTED: IP space"}},
		{"a bad image", one("RESOURCE_NOT_FOUND", "The resource 'projects/p/global/images/sarge' was not found"), 0, provider.ErrPermanent, []string{"RESOURCE_NOT_FOUND", "sarge"}},
		{"a bad value", one("INVALID_FIELD_VALUE", "Invalid value for field 'resource.disks[0].initializeParams.sourceImage': 'sarge'."), 0, provider.ErrPermanent, []string{"INVALID_FIELD_VALUE", "sourceImage", "sarge"}},
		{"an internal error", one("INTERNAL_ERROR", "Internal error. Please try again."), 0, provider.ErrTransient, []string{"INTERNAL_ERROR: Internal error."}},
		{"no permission", one("PERMISSIONS_ERROR", "Required 'compute.images.useReadOnly' permission"), 0, provider.ErrPermanent, []string{"PERMISSIONS_ERROR", "useReadOnly"}},
		{"unknown, the caller's fault", one("NEVER_HEARD_OF", "x"), http.StatusBadRequest, provider.ErrPermanent, []string{"NEVER_HEARD_OF: x"}},
		{"unknown, the server's fault", one("NEVER_HEARD_OF", "x"), http.StatusServiceUnavailable, provider.ErrTransient, []string{"NEVER_HEARD_OF: x"}},
		{"unknown, not there", one("NEVER_HEARD_OF", "x"), http.StatusNotFound, provider.ErrPermanent, nil},
		{"unknown, too fast", one("NEVER_HEARD_OF", "x"), http.StatusTooManyRequests, provider.ErrTransient, nil},
		{"unknown, denied", one("NEVER_HEARD_OF", "x"), http.StatusForbidden, provider.ErrPermanent, nil},
		{"two, the one that needs a person counts", []gcpemulator.OperationError{{Code: "QUOTA_EXCEEDED", Message: "q"}, {Code: "INVALID_FIELD_VALUE", Message: "v"}}, 0, provider.ErrPermanent, []string{"INVALID_FIELD_VALUE: v; QUOTA_EXCEEDED: q"}},
		{"two that pass", []gcpemulator.OperationError{{Code: "INTERNAL_ERROR", Message: "i"}, {Code: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "z"}}, 0, provider.ErrQuotaExceeded, []string{"INTERNAL_ERROR: i; ZONE_RESOURCE_POOL_EXHAUSTED: z"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Insert: 5 * time.Second}})
			w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{Late: &gcpemulator.Late{Errors: tc.errs, Status: tc.status}})
			ref, req := w.create(w.provider())
			w.advance(10 * time.Second)
			p := w.provider()
			inst := w.get(p, ref)
			if inst.State != provider.StateFailed || inst.Left || inst.Marks.UID != req.UID || inst.Marks.Attempt != 1 || inst.Identity != "" {
				t.Fatalf("%+v, want it Failed with nothing left", inst)
			}
			expect(t, "the failure", inst.Err, tc.class, "", append(tc.says, "provider "+entry+": create "+ref.ID)...)
			if e := (*provider.Error)(nil); !errors.As(inst.Err, &e) || e.Err.Error() != inst.Message {
				t.Errorf("the message is %q, the error %v", inst.Message, inst.Err)
			}
			// The next attempt is another creation.
			next := w.ref(req, 2)
			must(w.t, p.Create(t.Context(), req, next))
			w.advance(10 * time.Second)
			w.expect(t, "the next attempt", p, next, "Running")
		})
	}
}

func TestWarningsAreNoFailure(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{Late: &gcpemulator.Late{
		Warnings: []gcpemulator.OperationError{{Code: "DISK_SIZE_LARGER_THAN_IMAGE_SIZE", Message: "resize it"}},
	}})
	p := w.provider()
	ref, _ := w.create(p)
	w.expect(t, "with a warning", p, ref, "Running")
	w.emulator.Vanish(ref.ID)
	w.expect(t, "and once it is gone", p, ref, "not_found")
}

func TestWhatAFailedCreationLeaves(t *testing.T) {
	for name, leaves := range map[string]gcpemulator.Leaves{"its disk": gcpemulator.LeavesDisk, "the VM": gcpemulator.LeavesInstance} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Insert: 5 * time.Second, Delete: 5 * time.Second}})
			f := late(gcpemulator.Stockout("us-central1-a").Errors...)
			f.Late.Leaves = leaves
			w.emulator.InjectOnce(gcpemulator.On("instances.insert"), f)
			ref, req := w.create(w.provider())
			w.advance(10 * time.Second)
			p := w.provider()
			inst := w.get(p, ref)
			want := owner.MarksFor(req, ref)
			want.Namespace, want.Name = inst.Marks.Namespace, inst.Marks.Name // the emulator's disks have no description
			if inst.State != provider.StateFailed || !inst.Left || inst.Identity == "" || inst.Marks != want {
				t.Errorf("%+v, want it Failed with something left", inst)
			}
			expect(t, "the failure", inst.Err, provider.ErrQuotaExceeded, "", "ZONE_RESOURCE_POOL_EXHAUSTED")
			if shown, _ := w.list(p); len(shown) != 1 || !strings.HasSuffix(shown[0], ref.ID) {
				t.Errorf("the list shows %q", shown)
			}
			must(w.t, p.Delete(t.Context(), ref))
			w.advance(time.Second)
			w.expect(t, "while it is being removed", p, ref, "Deleting")
			w.advance(10 * time.Second)
			if left := w.left(); len(left) > 0 {
				t.Errorf("left is %q", left)
			}
			if got := w.state(p, ref); got != "not_found" && got != "Failed quota_exceeded" {
				t.Errorf("in the end it is %s", got)
			}
		})
	}
}

// Once the API has forgotten how a creation ended, only time is a proof.
func TestAnOperationThatHasExpired(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Insert: 5 * time.Second}, OperationMemory: time.Second})
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), late(gcpemulator.Stockout("us-central1-a").Errors...))
	p := w.provider()
	ref, _ := w.create(p)
	w.advance(20 * time.Second)
	w.expect(t, "within the window", p, ref, "Provisioning")
	w.advance(past)
	w.expect(t, "after it", p, ref, "not_found")
}

// A VM that is not there yet is not absent, however long its creation takes.
func TestNothingIsAbsentWhileItsCreationRuns(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Show: 20 * time.Minute}})
	ref, _ := w.create(w.provider())
	for range 18 {
		w.advance(time.Minute)
		p := w.provider()
		if inst := w.get(p, ref); inst.State != provider.StateProvisioning || inst.Marks.UID != ref.UID || inst.Message == "" {
			t.Fatalf("after %s: %+v", w.clock.Now().Sub(ref.RequestedAt), inst)
		}
		if got := w.emulator.Calls("zoneOperations.list"); got == 0 {
			t.Fatal("the operation was not looked for")
		}
	}
	w.advance(5 * time.Minute)
	w.expect(t, "in the end", w.provider(), ref, "Running")
}
