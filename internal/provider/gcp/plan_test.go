package gcp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestPlanNamesTheWholePlace(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	for _, extra := range []string{"", "regions: [us-central1]\n"} {
		w.extra = extra
		for _, region := range []string{"", "us-central1"} {
			req := w.request()
			req.Placement.Region = region
			id, err := w.provider().Plan(t.Context(), req)
			if want := "projects/project-a/zones/us-central1-a/instances/" + provider.NameFromUID(req.UID); err != nil || id != want {
				t.Errorf("%q in region %q: %s, %v, want %s", extra, region, id, err, want)
			}
		}
	}
	if calls := w.emulator.AllCalls(); len(calls) > 0 {
		t.Errorf("Plan has made calls: %v", calls)
	}
}

// What a person has written is named with its field and value.
func TestPlanSaysWhatIsWrongWithAPlacement(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.extra = "regions: [us-central1, europe-west1]\n"
	p := w.provider()
	for _, tc := range []struct {
		reason string
		change func(*provider.CreateRequest)
		says   []string
	}{
		{"no zone", func(r *provider.CreateRequest) { r.Placement.Zone = "" }, []string{"placement.zone is missing"}},
		{"a region, no zone", func(r *provider.CreateRequest) { r.Placement = provider.Placement{Region: "us-central1"} }, []string{"placement.zone is missing"}},
		{"a zone given as region", func(r *provider.CreateRequest) { r.Placement = provider.Placement{Region: "us-central1-a"} }, []string{"placement.zone is missing", `placement.region "us-central1-a" is a zone`}},
		{"a region given as zone", func(r *provider.CreateRequest) { r.Placement.Zone = "us-central1" }, []string{`placement.zone "us-central1" is a region`, "us-central1-b"}},
		{"a zone as both", func(r *provider.CreateRequest) { r.Placement.Region = "us-central1-a" }, []string{`placement.region "us-central1-a" is not the one of placement.zone "us-central1-a"`}},
		{"a zone of another region", func(r *provider.CreateRequest) { r.Placement.Region = "europe-west1" }, []string{`placement.region "europe-west1"`, `placement.zone "us-central1-a"`}},
		{"a zone outside of the entry's regions", func(r *provider.CreateRequest) { r.Placement.Zone = "asia-east1-a" }, []string{`placement.zone "asia-east1-a"`, "us-central1, europe-west1"}},
		{"no zone's name", func(r *provider.CreateRequest) { r.Placement.Zone = "us-central1-a/../b" }, []string{`placement.zone "us-central1-a/../b"`}},
		{"upper case", func(r *provider.CreateRequest) { r.Placement.Zone = "US-central1-a" }, []string{`placement.zone "US-central1-a"`}},
		{"no machine type", func(r *provider.CreateRequest) { r.Placement.MachineType = "" }, []string{"placement.machineType is missing"}},
		{"a path as machine type", func(r *provider.CreateRequest) { r.Placement.MachineType = "zones/b/machineTypes/e2-micro" }, []string{`placement.machineType "zones/b/machineTypes/e2-micro"`}},
		{"no image", func(r *provider.CreateRequest) { r.Placement.Image = "" }, []string{"placement.image is missing"}},
		{"no image's name", func(r *provider.CreateRequest) { r.Placement.Image = "debian 12" }, []string{`placement.image "debian 12"`}},
		{"port 0", func(r *provider.CreateRequest) { r.Port = 0 }, []string{"port 0"}},
		{"port 65536", func(r *provider.CreateRequest) { r.Port = 65536 }, []string{"port 65536"}},
		{"another name", func(r *provider.CreateRequest) { r.Name = provider.NameFromUID("x") }, []string{"name"}},
		{"a UID that is no label", func(r *provider.CreateRequest) { r.UID = "A.B"; r.Name = provider.NameFromUID(r.UID) }, []string{`"A.B"`}},
		{"no UID", func(r *provider.CreateRequest) { r.UID = ""; r.Name = provider.NameFromUID("") }, []string{"uid"}},
		{"a spec mark that is no label", func(r *provider.CreateRequest) { r.Spec = "V1" }, []string{`"V1"`}},
		{"cloud-init that is no text", func(r *provider.CreateRequest) { r.CloudInit = "\x1f\x8b\x08 sentinel" }, []string{"cloudInit", "UTF-8"}},
		// 128 Ki characters of two bytes each, and one more.
		{"cloud-init of too many bytes", func(r *provider.CreateRequest) { r.CloudInit = strings.Repeat("é", 128<<10) + "#" }, []string{"cloudInit has 262145 bytes", "262144"}},
	} {
		req := w.request()
		tc.change(&req)
		_, err := p.Plan(t.Context(), req)
		expect(t, tc.reason, err, provider.ErrPermanent, "", append(tc.says, "provider "+entry+": plan: ")...)
		if err != nil && strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%s: %v repeats the cloud-init", tc.reason, err)
		}
		expect(t, tc.reason+", created", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrPermanent, "", tc.says...)
	}
	if calls := w.emulator.AllCalls(); len(calls) > 0 {
		t.Errorf("there were calls: %v", calls)
	}
}

func TestTheLargestCloudInitArrives(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	want := strings.Repeat("é", 128<<10)
	ref, _ := w.create(p, func(r *provider.CreateRequest) { r.CloudInit = want })
	if got := w.vm(ref).Metadata.Items; len(got) != 1 || *got[0].Value != want {
		t.Errorf("%d items", len(got))
	}
}

func TestPlanEndsWithItsContext(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.provider().Plan(ctx, w.request())
	expect(t, "Plan", err, provider.ErrTransient, "")
}

// IDs are read strictly, and those outside of the entry's scope are not absent.
func TestIDsOutsideOfTheScope(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.extra = "regions: [us-central1]\n"
	p := w.provider()
	name := provider.NameFromUID("x")
	for _, id := range []string{
		"", "/", name, "projects/project-a/zones/us-central1-a/instances/" + name + "/", "/projects/project-a/zones/us-central1-a/instances/" + name,
		"projects/project-a/zones/us-central1-a/instances/other", "projects/project-a/zones/us-central1-a/disks/" + name,
		"projects/project-a/zones/../instances/" + name, "projects//zones/us-central1-a/instances/" + name,
		"projects/project-b/zones/us-central1-a/instances/" + name, "projects/project-a/zones/europe-west1-b/instances/" + name,
		"projects/project-a/regions/us-central1/instances/" + name, "projects/project-a/zones/us-central1/instances/" + name,
	} {
		ref := provider.Ref{ID: id, UID: "x", Attempt: 1}
		_, err := p.Get(t.Context(), ref)
		expect(t, "Get "+id, err, provider.ErrPermanent, provider.ReasonScopeMismatch)
		expect(t, "Delete "+id, p.Delete(t.Context(), ref), provider.ErrPermanent, provider.ReasonScopeMismatch)
	}
	if calls := w.emulator.AllCalls(); len(calls) > 0 {
		t.Errorf("there were calls: %v", calls)
	}
}
