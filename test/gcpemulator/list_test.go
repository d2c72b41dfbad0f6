package gcpemulator_test

import (
	"fmt"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// names are those in an aggregated list, with the warnings of its scopes.
func (r *rig) names(filter string, size uint32) (names []string, warnings map[string]string, err error) {
	req := &computepb.AggregatedListInstancesRequest{Project: project, MaxResults: &size}
	if filter != "" {
		req.Filter = &filter
	}
	scopes, err := all(r.instances.AggregatedList(r.Context(), req).Next)
	warnings = map[string]string{}
	for _, s := range scopes {
		for _, in := range s.Value.GetInstances() {
			names = append(names, in.GetName())
		}
		if w := s.Value.GetWarning(); w != nil {
			warnings[s.Key] = w.GetCode()
		}
	}
	return names, warnings, err
}

func (r *rig) fill(n int) {
	r.Helper()
	for i := range n {
		r.create(fmt.Sprintf("i-%03d", i))
	}
	r.Place(gcpemulator.ID(project, "europe-west1-b", "elsewhere"), map[string]string{"owner": "nobody"})
	r.Place(gcpemulator.ID("project-b", zone, "foreign"), map[string]string{"managed": "true"})
}

func TestAggregatedListHasEverythingOnItsPages(t *testing.T) {
	for _, dense := range []bool{false, true} {
		for _, size := range []uint32{0, 1, 3, 500} {
			r := newRig(t, gcpemulator.Options{DensePages: dense})
			r.fill(7)
			names, warnings, err := r.names("", size)
			must(t, err)
			if len(names) != 8 || warnings["zones/europe-west1-c"] != "NO_RESULTS_ON_PAGE" {
				t.Errorf("pages of %d: %v, %v", size, names, warnings)
			}
			if names, _, err = r.names("labels.managed=true", size); err != nil || len(names) != 7 {
				t.Errorf("pages of %d, filtered: %v, %v", size, names, err)
			}
		}
	}
}

// A page may be empty and still have a next one.
func TestEmptyPages(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.fill(2)
	r.SetEmptyPages(2)
	it := r.instances.AggregatedList(t.Context(), &computepb.AggregatedListInstancesRequest{Project: project})
	if _, err := all(it.Next); err != nil {
		t.Fatal(err)
	}
	if names, _, err := r.names("", 500); err != nil || len(names) != 3 {
		t.Errorf("%v, %v", names, err)
	}
	it = r.instances.AggregatedList(t.Context(), &computepb.AggregatedListInstancesRequest{Project: project})
	_, next, err := it.InternalFetch(0, "")
	if page := it.Response.(*computepb.InstanceAggregatedList); err != nil || next == "" || page.GetItems()["zones/"+zone].GetWarning().GetCode() != "NO_RESULTS_ON_PAGE" {
		t.Errorf("the first page is %v, next %q, %v", page, next, err)
	}
}

func TestLoopingPages(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.fill(1)
	r.SetLoopingPages(true)
	it := r.instances.List(t.Context(), &computepb.ListInstancesRequest{Project: project, Zone: zone})
	seen := map[string]int{}
	for range 3 {
		in, err := it.Next()
		must(t, err)
		seen[in.GetName()+it.PageInfo().Token]++
	}
	if len(seen) != 1 {
		t.Errorf("%v", seen)
	}
}

func TestPagesSurviveChanges(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.fill(6)
	it := r.instances.List(t.Context(), &computepb.ListInstancesRequest{Project: project, Zone: zone, MaxResults: proto.Uint32(2)})
	var names []string
	for range 2 {
		in, err := it.Next()
		must(t, err)
		names = append(names, in.GetName())
	}
	r.Vanish(gcpemulator.ID(project, zone, names[1]))
	rest, err := all(it.Next)
	if err != nil || len(rest) != 4 {
		t.Errorf("the rest is %v, %v", rest, err)
	}
}

func TestListsLag(t *testing.T) {
	r := newRig(t, gcpemulator.Options{ListLag: 10 * time.Second})
	r.create("a")
	r.expect("at once", "a", "RUNNING")
	if names, _, _ := r.names("", 500); len(names) != 0 {
		t.Errorf("listed at once: %v", names)
	}
	r.step(10 * time.Second)
	if names, _, _ := r.names("", 500); len(names) != 1 {
		t.Errorf("after the lag: %v", names)
	}
	must(t, second(r.remove("a")))
	r.step(9 * time.Second)
	if names, _, _ := r.names("", 500); len(names) != 1 {
		t.Errorf("right after its deletion: %v", names)
	}
	r.step(time.Second)
	if names, _, _ := r.names("", 500); len(names) != 0 {
		t.Errorf("after the lag: %v", names)
	}
}
