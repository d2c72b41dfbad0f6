package gcpemulator_test

import (
	"strings"
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

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
