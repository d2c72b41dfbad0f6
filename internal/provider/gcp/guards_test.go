package gcp_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// Nothing is asked for under a record that is not of the request, is none, or is too old.
func TestRecordsThatNothingIsCreatedUnder(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*provider.Ref)
		class  error
		why    string
	}{
		{"another UID", func(r *provider.Ref) { r.UID = "another" }, provider.ErrPermanent, ""},
		{"another place", func(r *provider.Ref) { r.ID += "x" }, provider.ErrPermanent, ""},
		{"no attempt", func(r *provider.Ref) { r.Attempt = 0 }, provider.ErrPermanent, ""},
		{"too old", func(r *provider.Ref) { r.RequestedAt = r.RequestedAt.Add(-30 * time.Second) }, provider.ErrTransient, provider.ReasonWindowClosed},
	} {
		w := newT(t, gcpemulator.Options{})
		req := w.request()
		ref := w.ref(req, 1)
		tc.change(&ref)
		expect(t, tc.reason, w.provider().Create(t.Context(), req, ref), tc.class, tc.why)
		if calls := w.emulator.AllCalls(); len(calls) > 0 {
			t.Errorf("%s: there were calls: %v", tc.reason, calls)
		}
	}
}

// What stands there is not asked for again, whoever asks.
func TestWhatStandsIsAskedForOnce(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	ref, req := w.create(w.provider())
	must(w.t, w.provider().Create(t.Context(), req, ref))
	if n := w.emulator.Calls("instances.insert"); n != 1 {
		t.Errorf("%d insertions", n)
	}
}

// The disk that an earlier attempt has left is a rest, also while the next one may be on its way.
func TestTheDiskOfAnotherAttempt(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.LoseMain(ref.ID)
	w.advance(past)
	if inst := w.get(p, w.ref(req, 2)); inst.State != provider.StateTerminated || inst.Marks.Attempt != 1 {
		t.Errorf("it is %+v", inst)
	}
}

// A disk without its VM is no rest while the creation of both runs, however long that takes.
func TestTheDiskOfACreationThatRuns(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Insert: 10 * time.Minute}})
	p := w.provider()
	ref, _ := w.create(p)
	w.emulator.LoseMain(ref.ID)
	w.advance(past)
	if inst := w.get(p, ref); inst.State != provider.StateProvisioning || inst.Message != "the creation is in progress" || inst.Marks.Attempt != 1 {
		t.Errorf("it is %+v", inst)
	}
}

// Between the look and the effect another disk can have taken the name; it has another number.
func TestDeleteSparesTheDiskThatHasTakenTheName(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.LoseMain(ref.ID)
	w.emulator.InjectOnce(gcpemulator.On("disks.delete"), gcpemulator.Fault{OnCall: func() {
		if _, err := w.sdk().Disks.Delete("project-a", "us-central1-a", req.Name).Context(t.Context()).Do(); err != nil {
			t.Errorf("the first disk: %v", err)
		}
		if err := w.provider().Create(t.Context(), req, w.ref(req, 2)); err != nil {
			t.Errorf("Create: %v", err)
		}
		w.emulator.LoseMain(ref.ID)
	}})
	must(w.t, p.Delete(t.Context(), ref))
	if inst := w.get(p, ref); inst.Marks.Attempt != 2 || inst.State != provider.StateTerminated {
		t.Errorf("it is %+v", inst)
	}
}

// A rest outside of the entry's regions is another entry's.
func TestRestsOfOtherRegionsAreNotListed(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	ref, _ := w.create(w.provider(), func(r *provider.CreateRequest) { r.Placement.Zone = "europe-west1-b" })
	w.emulator.LoseMain(ref.ID)
	w.advance(past)
	for extra, want := range map[string][]string{"": {"Terminated " + ref.ID}, "regions: [us-central1]\n": nil} {
		w.extra = extra
		if shown, _ := w.list(w.provider()); !slices.Equal(shown, want) {
			t.Errorf("%q: listed is %q, want %q", extra, shown, want)
		}
	}
}

// An operation can fail without saying why: its status is all there is.
func TestACreationThatFailedWithoutAReason(t *testing.T) {
	for status, want := range map[int]string{503: "Failed transient", 400: "Failed permanent", 200: "not_found"} {
		w := newT(t, gcpemulator.Options{})
		p := w.provider()
		ref, req := w.create(p)
		w.emulator.Vanish(ref.ID)
		w.emulator.InjectOnce(gcpemulator.On("zoneOperations.list"), gcpemulator.Fault{Status: 200, Body: fmt.Sprintf(
			`{"items": [{"name": "o", "operationType": "insert", "clientOperationId": %q, "targetId": "7", "status": "DONE", "insertTime": "2024-05-01T05:00:00-07:00", "httpErrorStatusCode": %d}]}`,
			provider.CreateToken(req.UID, 1), status)})
		w.expect(t, fmt.Sprint(status), p, ref, want)
	}
}
