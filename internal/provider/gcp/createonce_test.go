package gcp_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// The token is the same for whoever sends the attempt, and another for the next.
func TestTheTokenIsOfUIDAndAttempt(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	for attempt := int64(1); attempt < 3; attempt++ {
		ops := w.operations("insert")
		token := ops[len(ops)-1].ClientOperationId
		if id, err := uuid.Parse(token); err != nil || id.Version() != 5 || token != provider.CreateToken(req.UID, attempt) {
			t.Errorf("attempt %d has token %s, %v", attempt, token, err)
		}
		must(w.t, p.Delete(t.Context(), ref))
		ref = w.ref(req, attempt+1)
		must(w.t, p.Create(t.Context(), req, ref))
	}
}

func TestTheSameCreateTwiceMakesOneVM(t *testing.T) {
	for name, opts := range map[string]gcpemulator.Options{"seen": {}, "not seen yet": {Delays: gcpemulator.Delays{Show: time.Minute}}} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, opts)
			req := w.request()
			ref := w.ref(req, 1)
			var all sync.WaitGroup
			for range 4 {
				p := w.provider()
				all.Go(func() {
					if err := p.Create(t.Context(), req, ref); err != nil {
						t.Errorf("Create: %v", err)
					}
				})
			}
			all.Wait()
			must(w.t, w.provider().Create(t.Context(), req, ref))
			if ops := w.operations("insert"); len(ops) != 1 || len(w.left()) != 2 {
				t.Errorf("%d operations, and %q", len(ops), w.left())
			}
		})
	}
}

// A token refused because the request has changed is one that was taken before.
func TestTheSameAttemptWithOtherWordsIsTheFirst(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Show: 20 * time.Second}})
	p := w.provider()
	ref, req := w.create(p, func(r *provider.CreateRequest) { r.CloudInit = "first" })
	req.CloudInit, req.Spec = "second", "v1-other"
	if err := p.Create(t.Context(), req, ref); err != nil {
		t.Errorf("Create: %v", err)
	}
	w.advance(time.Minute)
	if got := *w.vm(ref).Metadata.Items[0].Value; got != "first" || w.get(p, ref).Marks.Spec == req.Spec {
		t.Errorf("there is %q", got)
	}
}

func TestWhatTheAPIDoesNotTakeIsPermanentAndNamed(t *testing.T) {
	for _, tc := range []struct {
		reason string
		change func(*provider.CreateRequest)
		says   []string
	}{
		{"a zone that is not there", func(r *provider.CreateRequest) { r.Placement.Zone = "us-central1-z" }, []string{`placement.zone "us-central1-z"`, "project-a"}},
		{"a machine type that is not there", func(r *provider.CreateRequest) { r.Placement.MachineType = "e9-micro" }, []string{"machineType", "e9-micro"}},
		{"an image that is not there", func(r *provider.CreateRequest) { r.Placement.Image = "projects/debian-cloud/global/images/sarge" }, []string{"sarge"}},
		{"an image that is none", func(r *provider.CreateRequest) { r.Placement.Image = "sarge" }, []string{"sourceImage", "sarge"}},
	} {
		w := newT(t, gcpemulator.Options{})
		p := w.provider()
		req := w.request()
		tc.change(&req)
		ref := w.ref(req, 1)
		expect(t, tc.reason, p.Create(t.Context(), req, ref), provider.ErrPermanent, "", tc.says...)
		if left := w.left(); len(left) > 0 {
			t.Errorf("%s: %q is left", tc.reason, left)
		}
		w.expect(t, tc.reason+", within the window", p, ref, "Provisioning")
		w.advance(past)
		w.expect(t, tc.reason+", later", p, ref, "not_found")
		must(w.t, p.Delete(t.Context(), ref))
	}
}

func TestADiskInUseElsewhereHasTheName(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	req := w.request()
	_, err := w.sdk().Instances.Insert("project-a", "us-central1-a", &compute.Instance{
		Name: "rescue", MachineType: "zones/us-central1-a/machineTypes/e2-micro", NetworkInterfaces: []*compute.NetworkInterface{{}},
		Disks: []*compute.AttachedDisk{{Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{DiskName: req.Name, SourceImage: req.Placement.Image}}},
	}).Context(t.Context()).Do()
	must(w.t, err)
	ref := w.ref(req, 1)
	expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "", "rescue")
	w.advance(past)
	w.expect(t, "what another VM uses is not ours", p, ref, "not_found")
	must(w.t, p.Delete(t.Context(), ref))
	if left := w.left(); !slices.Contains(left, "projects/project-a/zones/us-central1-a/disks/"+req.Name) {
		t.Errorf("left is %q", left)
	}
}
