package gcpemulator_test

import (
	"strconv"
	"testing"

	discovery "google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// newService is the other of Google's two Go clients, generated from the discovery document.
func newService(r *rig) *discovery.Service {
	r.Helper()
	s, err := discovery.NewService(r.Context(), option.WithEndpoint(r.URL+"/compute/v1/"), option.WithoutAuthentication())
	must(r.T, err)
	return s
}

func TestTheOtherClientReadsTheSame(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	s := newService(r)
	op, err := s.Instances.Insert(project, zone, &discovery.Instance{
		Name: "a", MachineType: "zones/" + zone + "/machineTypes/e2-small", Labels: map[string]string{"managed": "true"},
		Disks: []*discovery.AttachedDisk{{
			Boot: true, AutoDelete: true, InitializeParams: &discovery.AttachedDiskInitializeParams{SourceImage: image, DiskSizeGb: 20},
		}},
		NetworkInterfaces: []*discovery.NetworkInterface{{AccessConfigs: []*discovery.AccessConfig{{Type: "ONE_TO_ONE_NAT"}}}},
	}).RequestId("6ba7b810-9dad-11d1-80b4-00c04fd430c8").Do()
	must(t, err)
	in, err := s.Instances.Get(project, zone, "a").Do()
	must(t, err)
	if in.Id != op.TargetId || in.Status != "RUNNING" || in.NetworkInterfaces[0].AccessConfigs[0].NatIP == "" || in.Disks[0].DiskSizeGb != 20 {
		t.Errorf("%+v", in)
	}
	ops, err := s.ZoneOperations.List(project, zone).Filter("clientOperationId=" + op.ClientOperationId).Do()
	if err != nil || len(ops.Items) != 1 || ops.Items[0].Status != "DONE" {
		t.Errorf("%+v, %v", ops, err)
	}
	r.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 429, RetryAfter: "7"})
	_, err = s.Instances.Get(project, zone, "a").Do()
	if api := asAPI(t, err); reason(err) != "429 rateLimitExceeded" || api.Header.Get("Retry-After") != "7" {
		t.Errorf("%#v", api)
	}
}

// Neither client has a field for returnPartialSuccess, but this one sends any parameter.
func TestUnreachableZones(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.fill(2)
	s := newService(r)
	for _, tc := range []struct {
		how          gcpemulator.Unreachable
		partial      bool
		want         string
		instances    int
		warning      string
		unreachables int
	}{
		{gcpemulator.Reachable, false, "ok", 3, "", 0},
		{gcpemulator.ScopeWarns, false, "ok", 1, "UNREACHABLE", 1},
		{gcpemulator.ScopeFails, false, "503 backendError", 0, "", 0},
		{gcpemulator.ScopeFails, true, "ok", 1, "UNREACHABLE", 1},
		{gcpemulator.ScopeMissing, false, "ok", 1, "", 1},
	} {
		r.SetUnreachable(project, zone, tc.how)
		list, err := s.Instances.AggregatedList(project).Do(googleapi.QueryParameter("returnPartialSuccess", strconv.FormatBool(tc.partial)))
		if reason(err) != tc.want {
			t.Errorf("%v: %v", tc, err)
		}
		if err == nil {
			n, warning := 0, ""
			for _, scope := range list.Items {
				n += len(scope.Instances)
			}
			if scope, ok := list.Items["zones/"+zone]; ok && scope.Warning != nil {
				warning = scope.Warning.Code
			}
			if n != tc.instances || warning != tc.warning || len(list.Unreachables) != tc.unreachables {
				t.Errorf("%v: %d instances, warning %q, unreachable %v", tc, n, warning, list.Unreachables)
			}
		}
		if tc.how != gcpemulator.Reachable {
			if err := second(r.remove("i-000")); reason(err) != "503 backendError" {
				t.Errorf("%v: delete: %v", tc, err)
			}
		}
	}
}
