package gcpemulator_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestDelaysCanBeChanged(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.SetBootDelay(time.Minute)
	r.create("a")
	r.step(59 * time.Second)
	r.expect("before", "a", "STAGING")
	r.step(time.Second)
	r.expect("after", "a", "RUNNING")
	r.SetListLag(time.Hour)
	if names, _, err := r.names("", 500); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
	calls := r.AllCalls()
	if calls["instances.insert"] != 1 || calls["instances.get"] != 2 || calls["instances.aggregatedList"] != 1 {
		t.Errorf("%v", calls)
	}
}

func TestLeftoversReadWell(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.Place(gcpemulator.ID(project, zone, "a"), nil)
	left := r.Leftovers()
	if len(left) != 2 || !strings.HasPrefix(left[1].String(), "projects/project-a/zones/us-central1-a/instances/a (") || left[0].ID != "projects/project-a/zones/us-central1-a/disks/a" {
		t.Errorf("%v", left)
	}
}

func TestDisksHaveNames(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	in := body("a")
	in.Disks = append(in.Disks, proto.CloneOf(in.Disks[0]), proto.CloneOf(in.Disks[0]), &computepb.AttachedDisk{Source: proto.String("zones/" + zone + "/disks/old")})
	in.Disks[1].Boot, in.Disks[2].Boot = nil, nil
	in.Disks[2].InitializeParams.DiskName, in.Disks[2].AutoDelete = proto.String("data"), nil
	in.Disks[2].InitializeParams.DiskSizeGb = nil
	must(t, second(r.insert(in, "")))
	var names []string
	for _, l := range r.Leftovers() {
		names = append(names, l.ID[strings.LastIndexByte(l.ID, '/')+1:])
	}
	if got := strings.Join(names, " "); got != "a a-1 data a" {
		t.Errorf("%s", got)
	}
	must(t, second(r.remove("a")))
	if left := r.Leftovers(); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

func TestDeletionProtection(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	in := body("a")
	in.DeletionProtection = proto.Bool(true)
	must(t, second(r.insert(in, "")))
	if err := second(r.remove("a")); reason(err) != "400 invalid" {
		t.Errorf("%v", err)
	}
}

// A deletion that fails leaves things as they were, whatever they were.
func TestADeletionThatFailsPutsBack(t *testing.T) {
	r := newRig(t, slow())
	id := gcpemulator.ID(project, zone, "a")
	r.Place(id, nil)
	for _, tc := range []struct {
		arrange func()
		want    string
	}{
		{func() { r.SetStatus(id, "TERMINATED") }, "TERMINATED"},
		{func() { r.Start(id) }, "PROVISIONING"},
		{func() { r.SetStatus(id, "RUNNING") }, "RUNNING"},
	} {
		tc.arrange()
		r.InjectOnce(gcpemulator.On("instances.delete"), gcpemulator.Fault{Late: &gcpemulator.Late{Errors: codes("INTERNAL_ERROR"), After: time.Second}})
		must(t, second(r.remove("a")))
		r.expect("meanwhile", "a", "STOPPING")
		r.step(time.Second)
		r.expect("after it failed", "a", tc.want)
	}
	r.InjectOnce(gcpemulator.On("instances.delete"), gcpemulator.Fault{ShowAfter: time.Hour})
	must(t, second(r.remove("a")))
	r.step(59 * time.Minute)
	r.expect("for an hour", "a", "STOPPING")
	r.step(90 * time.Second)
	r.expect("in the end", "a", "404 notFound")
}
