package gcpemulator_test

import (
	"fmt"
	"strings"
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

func TestBadLists(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, req := range []*computepb.ListInstancesRequest{
		{Filter: proto.String("labels.a=")}, {Filter: proto.String("(labels.a=b")}, {Filter: proto.String("labels.a=b)")},
		{Filter: proto.String("labels.a ~ b")}, {Filter: proto.String("= b")}, {Filter: proto.String("name eq [")},
		{Filter: proto.String(`name="a`)}, {MaxResults: proto.Uint32(501)}, {PageToken: proto.String("nonsense")},
		{OrderBy: proto.String("labels")},
	} {
		req.Project, req.Zone = project, zone
		if _, err := all(r.instances.List(t.Context(), req).Next); reason(err) != "400 invalid" {
			t.Errorf("%v: %v", req, err)
		}
	}
}

func TestFilters(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, name := range []string{"a", "b"} {
		in := body(name)
		in.Labels = map[string]string{"managed": "true", "owner": name, "with-dash_and": "x"}
		in.Scheduling = &computepb.Scheduling{AutomaticRestart: proto.Bool(name == "b")}
		_, err := r.insert(in, "")
		must(t, err)
	}
	r.SetStatus(gcpemulator.ID(project, zone, "b"), "SUSPENDED")
	for filter, want := range map[string]string{
		"":                      "a b",
		"labels.owner=a":        "a",
		`labels.owner="a"`:      "a",
		`labels.owner='a'`:      "a",
		`labels.owner = "none"`: "",
		`labels.managed=true AND labels.owner="b"`:       "b",
		`(labels.managed="true") (labels.owner="b")`:     "b",
		`labels.owner=a OR labels.owner=b AND status=no`: "", // OR binds more tightly
		`labels.owner=a OR labels.owner=b`:               "a b",
		`NOT labels.owner=a`:                             "b",
		`labels.owner != a`:                              "b",
		`labels.none != a`:                               "a b",
		`labels.owner:*`:                                 "a b",
		`labels.none:*`:                                  "",
		`labels.with-dash_and=x`:                         "a b",
		`status = SUSPENDED`:                             "b",
		`scheduling.automaticRestart = false`:            "a",
		`name eq "a|c"`:                                  "a",
		`name ne a`:                                      "b",
		`name eq a.`:                                     "",
		`tags.items=proxy`:                               "a b",
		`creationTimestamp > "2024-05-01T11:00:00Z"`:     "a b",
		`creationTimestamp < "2024-05-01T11:00:00Z"`:     "",
		`id > 5 AND id >= 5`:                             "a b",
		`id <= 5`:                                        "",
		`networkInterfaces.accessConfigs.name:NAT`:       "a b",
		`nothing.at.all=x`:                               "",
	} {
		names, _, err := r.names(filter, 500)
		if got := strings.Join(names, " "); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", filter, got, err, want)
		}
	}
}

// The SDK cannot ask for partial success (its request has no such field); a transport can.
func TestUnreachableZones(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.fill(2)
	for _, tc := range []struct {
		how     gcpemulator.Unreachable
		partial bool
		want    string
		names   int
		warning string
		unread  int
	}{
		{gcpemulator.Reachable, false, "ok", 3, "", 0},
		{gcpemulator.ScopeWarns, false, "ok", 1, "UNREACHABLE", 1},
		{gcpemulator.ScopeFails, false, "503 backendError", 0, "", 0},
		{gcpemulator.ScopeFails, true, "ok", 1, "UNREACHABLE", 1},
		{gcpemulator.ScopeMissing, false, "ok", 1, "", 1},
	} {
		r.SetUnreachable(project, zone, tc.how)
		c := newPartial(r, tc.partial)
		ctx, cancel := shortly(t)
		it := c.AggregatedList(ctx, &computepb.AggregatedListInstancesRequest{Project: project})
		scopes, err := all(it.Next)
		cancel()
		n := 0
		for _, s := range scopes {
			n += len(s.Value.GetInstances())
		}
		if tc.want != "ok" {
			if err == nil {
				t.Errorf("%v: no error", tc)
			}
			continue
		}
		page := it.Response.(*computepb.InstanceAggregatedList)
		if err != nil || n != tc.names || page.GetItems()["zones/"+zone].GetWarning().GetCode() != tc.warning || len(page.GetUnreachables()) != tc.unread {
			t.Errorf("%v: %d, %v, %v", tc, n, page, err)
		}
		if tc.how != gcpemulator.Reachable {
			if err := second(r.remove("i-000")); reason(err) != "503 backendError" {
				t.Errorf("%v: delete: %v", tc, err)
			}
		}
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
