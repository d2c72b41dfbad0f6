package gcp_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// insert makes a VM by hand.
func (w *world) insert(zone string, vm *compute.Instance) {
	w.t.Helper()
	vm.MachineType, vm.NetworkInterfaces = "zones/"+zone+"/machineTypes/e2-micro", []*compute.NetworkInterface{{AccessConfigs: []*compute.AccessConfig{{}}}}
	if vm.Disks == nil {
		vm.Disks = []*compute.AttachedDisk{{Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{}}}
	}
	vm.Disks[0].InitializeParams.SourceImage = w.request().Placement.Image
	_, err := w.sdk().Instances.Insert("project-a", zone, vm).Context(w.t.Context()).Do()
	must(w.t, err)
}

// Labels edited by hand change whose a VM is, or what is known of it, and nothing else.
func TestLabelsEditedByHand(t *testing.T) {
	const foreign = "conflict"
	for _, tc := range []struct {
		reason string
		edit   func(map[string]string)
		want   string
		listed bool
	}{
		{"as they were", func(map[string]string) {}, "Running", true},
		{"all of them gone", func(l map[string]string) { clear(l) }, foreign, false},
		{"not managed any more", func(l map[string]string) { delete(l, provider.LabelManaged) }, foreign, false},
		{"managed in another way", func(l map[string]string) { l[provider.LabelManaged] = "yes" }, foreign, false},
		{"no UID", func(l map[string]string) { delete(l, provider.LabelUID) }, foreign, false},
		// It has another's name, so it is nobody's.
		{"another UID", func(l map[string]string) { l[provider.LabelUID] = "another" }, foreign, true},
		{"another installation", func(l map[string]string) { l[provider.LabelInstallation] = "another" }, foreign, false},
		{"another cluster", func(l map[string]string) { l[provider.LabelCluster] = "another" }, foreign, false},
		{"no attempt", func(l map[string]string) { delete(l, provider.LabelAttempt) }, foreign, false},
		{"attempt 0", func(l map[string]string) { l[provider.LabelAttempt] = "0" }, foreign, false},
		{"no attempt's number", func(l map[string]string) { l[provider.LabelAttempt] = "one" }, foreign, false},
		{"no port", func(l map[string]string) { delete(l, "proxy-operator-port") }, "Unknown", true},
		{"no port's number", func(l map[string]string) { l["proxy-operator-port"] = "http" }, "Unknown", true},
		{"no spec mark", func(l map[string]string) { delete(l, provider.LabelSpec) }, "Running", true},
		{"more of them", func(l map[string]string) { l["team"] = "crawling" }, "Running", true},
	} {
		w := newT(t, gcpemulator.Options{})
		p := w.provider()
		ref := w.ref(w.request(), 1)
		labels := marked(ref.UID, 1)
		tc.edit(labels)
		w.insert("us-central1-a", &compute.Instance{Name: provider.NameFromUID(ref.UID), Labels: labels, Description: "edited, too"})
		w.advance(past)
		w.expect(t, tc.reason, p, ref, tc.want)
		if shown, _ := w.list(p); (len(shown) == 1) != tc.listed {
			t.Errorf("%s: listed is %q", tc.reason, shown)
		}
		err := p.Delete(t.Context(), ref)
		if tc.want == foreign {
			expect(t, tc.reason+", removed", err, provider.ErrConflict, "")
		}
		if left := len(w.left()); (left > 0) != (tc.want == foreign) {
			t.Errorf("%s: %d parts are left", tc.reason, left)
		}
	}
}

// Whose a VM is does not depend on the description, which anybody may write anything into.
func TestDescriptionsEditedByHand(t *testing.T) {
	for _, description := range []string{"", "mine", "crawl.example.com/proxy ", "crawl.example.com/proxy /", "crawl.example.com/proxy other/proxy", "crawl.example.com/proxy a/b/c"} {
		w := newT(t, gcpemulator.Options{})
		p := w.provider()
		ref := w.ref(w.request(), 1)
		w.insert("us-central1-a", &compute.Instance{Name: provider.NameFromUID(ref.UID), Labels: marked(ref.UID, 1), Description: description})
		inst := w.get(p, ref)
		name, marked := strings.CutPrefix(description, "crawl.example.com/proxy ")
		if m := inst.Marks; inst.State != provider.StateRunning || m.UID != ref.UID || (m.Namespace+"/"+m.Name == name) != (marked && name != "") {
			t.Errorf("%q: %+v", description, inst)
		}
		must(w.t, p.Delete(t.Context(), ref))
		if left := w.left(); len(left) > 0 {
			t.Errorf("%q: left is %q", description, left)
		}
	}
}

// Copies that somebody made of a VM carry its labels under other names and in other places.
func TestCopiesAreLeftAlone(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.insert("us-central1-a", &compute.Instance{Name: "copy-of-proxy", Labels: marked(req.UID, 1)})
	w.insert("us-central1-b", &compute.Instance{Name: req.Name, Labels: marked(req.UID, 1)})
	stray := strings.Replace(ref.ID, "us-central1-a", "us-central1-b", 1)
	if shown, _ := w.list(p); !slices.Equal(shown, []string{"Running " + ref.ID, "Running " + stray}) {
		t.Errorf("listed is %q", shown)
	}
	must(w.t, p.Delete(t.Context(), ref))
	w.expect(t, "in the other zone", p, provider.Ref{ID: stray, UID: req.UID, Attempt: 1}, "Running")
	if left := w.left(); len(left) != 4 {
		t.Errorf("left is %q", left)
	}
}

// A disk that some other VM uses, for a rescue say, is no rest, whatever its labels say.
func TestADiskThatAnotherVMUses(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref := w.ref(w.request(), 1)
	w.insert("us-central1-a", &compute.Instance{Name: "rescue", Disks: []*compute.AttachedDisk{{
		Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{DiskName: provider.NameFromUID(ref.UID), Labels: marked(ref.UID, 1)},
	}}})
	w.advance(past)
	if shown, _ := w.list(p); len(shown) > 0 {
		t.Errorf("listed is %q", shown)
	}
	w.expect(t, "the instance", p, ref, "not_found")
	must(w.t, p.Delete(t.Context(), ref))
	if left := w.left(); len(left) != 2 {
		t.Errorf("left is %q", left)
	}
}

// A stranger who has taken the name of the VM does not make its disk go away.
func TestOwnDiskBesideAStrangersVM(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, req := w.create(p)
	w.emulator.LoseMain(ref.ID)
	w.insert("us-central1-a", &compute.Instance{Name: req.Name, Disks: []*compute.AttachedDisk{{
		Boot: true, AutoDelete: true, InitializeParams: &compute.AttachedDiskInitializeParams{DiskName: "strangers"},
	}}})
	w.advance(past)
	w.expect(t, "the disk", p, ref, "Terminated")
	expect(t, "Create beside it", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrConflict, "")
	expect(t, "Create of the next attempt", p.Create(t.Context(), req, w.ref(req, 2)), provider.ErrConflict, "")
	shown, err := p.ListByTag(t.Context())
	must(w.t, err)
	if len(shown.Instances) != 1 {
		t.Fatalf("listed is %+v", shown)
	}
	inst := shown.Instances[0]
	must(w.t, p.Delete(t.Context(), provider.Ref{ID: inst.ID, UID: inst.Marks.UID, Attempt: inst.Marks.Attempt, Identity: inst.Identity}))
	w.expect(t, "without the disk", p, ref, "conflict")
	expect(t, "Delete of the stranger's", p.Delete(t.Context(), ref), provider.ErrConflict, "")
	if left := w.left(); !slices.Equal(left, []string{"projects/project-a/zones/us-central1-a/disks/strangers", ref.ID}) {
		t.Errorf("left is %q", left)
	}
}

// Somebody's disk of that name, with nobody using it, is not touched either.
func TestAStrangersDisk(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	labels := marked(req.UID, 1)
	labels[provider.LabelInstallation] = "another"
	w.insert("us-central1-a", &compute.Instance{Name: req.Name, Labels: maps.Clone(labels), Disks: []*compute.AttachedDisk{{
		Boot: true, InitializeParams: &compute.AttachedDiskInitializeParams{Labels: labels},
	}}})
	w.emulator.LoseMain(ref.ID)
	w.expect(t, "within the window", p, ref, "conflict "+provider.ReasonAbsenceUnproven)
	expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "", `"another"`)
	w.advance(past)
	w.expect(t, "after it", p, ref, "conflict")
	expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrConflict, "")
	if shown, _ := w.list(p); len(shown) != 0 || len(w.left()) != 1 {
		t.Errorf("listed is %q, left %q", shown, w.left())
	}
}
