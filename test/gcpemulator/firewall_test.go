package gcpemulator_test

import (
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func firewall(name string, ranges ...string) *computepb.Firewall {
	return &computepb.Firewall{
		Name: &name, Network: proto.String("global/networks/default"), SourceRanges: ranges, TargetTags: []string{"proxy"},
		Allowed: []*computepb.Allowed{{IPProtocol: proto.String("tcp"), Ports: []string{"3128"}}},
	}
}

func TestLifeOfAFirewall(t *testing.T) {
	r := newRig(t, slow())
	firewalls := client(r, compute.NewFirewallsRESTClient)
	global := client(r, compute.NewGlobalOperationsRESTClient)
	get := func() (*computepb.Firewall, error) {
		return firewalls.Get(t.Context(), &computepb.GetFirewallRequest{Project: project, Firewall: "f"})
	}
	ends := func(op *compute.Operation, err error) {
		t.Helper()
		must(t, err)
		if op.Done() {
			t.Error("it has ended at once")
		}
		r.step(4 * time.Second)
		ended, err := global.Get(t.Context(), &computepb.GetGlobalOperationRequest{Project: project, Operation: op.Name()})
		if err != nil || ended.GetStatus() != computepb.Operation_DONE || ended.Zone != nil {
			t.Errorf("%v, %v", ended, err)
		}
		must(t, op.Poll(t.Context()))
	}
	insert := &computepb.InsertFirewallRequest{Project: project, FirewallResource: firewall("f", "10.0.0.0/8")}
	ends(firewalls.Insert(t.Context(), insert))
	f, err := get()
	must(t, err)
	if f.GetDirection() != "INGRESS" || f.GetPriority() != 1000 || f.GetId() == 0 || f.GetAllowed()[0].GetPorts()[0] != "3128" {
		t.Errorf("%v", f)
	}
	if _, err := firewalls.Insert(t.Context(), insert); reason(err) != "409 alreadyExists" {
		t.Errorf("again: %v", err)
	}
	ends(firewalls.Patch(t.Context(), &computepb.PatchFirewallRequest{
		Project: project, Firewall: "f", FirewallResource: &computepb.Firewall{SourceRanges: []string{"192.0.2.0/24"}},
	}))
	if f, err = get(); err != nil || len(f.GetSourceRanges()) != 1 || f.GetSourceRanges()[0] != "192.0.2.0/24" || len(f.GetAllowed()) != 1 {
		t.Errorf("patched to %v, %v", f, err)
	}
	next := firewall("f", "198.51.100.0/24")
	next.TargetTags = nil
	ends(firewalls.Update(t.Context(), &computepb.UpdateFirewallRequest{Project: project, Firewall: "f", FirewallResource: next}))
	if f, err = get(); err != nil || len(f.GetTargetTags()) != 0 || f.GetSourceRanges()[0] != "198.51.100.0/24" {
		t.Errorf("updated to %v, %v", f, err)
	}
	found, err := all(firewalls.List(t.Context(), &computepb.ListFirewallsRequest{Project: project, Filter: proto.String("name=f")}).Next)
	if err != nil || len(found) != 1 || len(r.Leftovers()) != 1 {
		t.Errorf("%v, %v, left %v", found, err, r.Leftovers())
	}
	remove := &computepb.DeleteFirewallRequest{Project: project, Firewall: "f"}
	op, err := firewalls.Delete(t.Context(), remove)
	if _, again := firewalls.Delete(t.Context(), remove); reason(again) != "400 resourceNotReady" {
		t.Errorf("again: %v", again)
	}
	ends(op, err)
	if _, err := get(); reason(err) != "404 notFound" {
		t.Errorf("%v", err)
	}
	ops, err := all(global.List(t.Context(), &computepb.ListGlobalOperationsRequest{Project: project}).Next)
	if err != nil || len(ops) != 4 {
		t.Errorf("%d operations, %v", len(ops), err)
	}
}

func TestFirewallsThatAreRefused(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	firewalls := client(r, compute.NewFirewallsRESTClient)
	for name, change := range map[string]func(f *computepb.Firewall){
		"name":    func(f *computepb.Firewall) { f.Name = proto.String("F") },
		"range":   func(f *computepb.Firewall) { f.SourceRanges = []string{"10.0.0.0/40"} },
		"nothing": func(f *computepb.Firewall) { f.Allowed = nil },
	} {
		f := firewall("f", "10.0.0.0/8")
		change(f)
		_, err := firewalls.Insert(t.Context(), &computepb.InsertFirewallRequest{Project: project, FirewallResource: f})
		if reason(err) != "400 invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.InjectOnce(gcpemulator.On("firewalls.insert"), gcpemulator.Fault{Late: &gcpemulator.Late{Errors: codes("RESOURCE_NOT_FOUND")}})
	op, err := firewalls.Insert(t.Context(), &computepb.InsertFirewallRequest{Project: project, FirewallResource: firewall("f")})
	if err != nil || op.Proto().GetHttpErrorStatusCode() != 404 || len(r.Leftovers()) != 0 {
		t.Errorf("%v, %v, left %v", op, err, r.Leftovers())
	}
}
