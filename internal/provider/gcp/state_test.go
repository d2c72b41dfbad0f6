package gcp_test

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestWhatAStatusMeans(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	for _, tc := range []struct {
		status string
		state  provider.State
		says   string
	}{
		{"PENDING", provider.StateProvisioning, "pending"},
		{"PROVISIONING", provider.StateProvisioning, "provisioning"},
		{"STAGING", provider.StateProvisioning, "staging"},
		{"RUNNING", provider.StateRunning, ""},
		{"PENDING_STOP", provider.StateDeleting, "pending_stop"},
		{"STOPPING", provider.StateDeleting, "stopping"},
		{"DEPROVISIONING", provider.StateDeleting, "deprovisioning"},
		{"STOPPED", provider.StateStopped, "stopped"},
		{"TERMINATED", provider.StateStopped, "terminated"},
		{"SUSPENDED", provider.StateStopped, "suspended"},
		{"SUSPENDING", provider.StateUnknown, "SUSPENDING"},
		{"REPAIRING", provider.StateUnknown, "REPAIRING"},
		{"CONTEMPLATING", provider.StateUnknown, "CONTEMPLATING"},
		{"running", provider.StateUnknown, "running"},
		{"", provider.StateUnknown, "no status"},
	} {
		w.emulator.SetStatus(ref.ID, tc.status)
		inst := w.get(p, ref)
		if inst.State != tc.state || !strings.Contains(inst.Message, tc.says) || (inst.Message == "") != (tc.says == "") {
			t.Errorf("%q is %s, %q, want %s, %q", tc.status, inst.State, inst.Message, tc.state, tc.says)
		}
		if running := inst.State == provider.StateRunning; (inst.IP != "") != running || (inst.Port != 0) != running || (inst.ExitAddress != "") != running {
			t.Errorf("%q has the address %s:%d, exit %s", tc.status, inst.IP, inst.Port, inst.ExitAddress)
		}
		if shown, _ := w.list(p); len(shown) != 1 || shown[0] != string(tc.state)+" "+ref.ID {
			t.Errorf("%q is listed as %q", tc.status, shown)
		}
	}
}

// Whatever the status is, the VM is removed.
func TestWhatHasStoppedIsRemoved(t *testing.T) {
	for _, status := range []string{"TERMINATED", "STOPPED", "SUSPENDED", "REPAIRING", "CONTEMPLATING"} {
		w := newT(t, gcpemulator.Options{})
		p := w.provider()
		ref, _ := w.create(p)
		w.emulator.SetStatus(ref.ID, status)
		w.advance(past)
		if got := w.state(p, ref); got == "not_found" {
			t.Errorf("%s does not exist", status)
		}
		must(w.t, p.Delete(t.Context(), ref))
		w.expect(t, status+", removed", p, ref, "not_found")
		if left := w.left(); len(left) > 0 {
			t.Errorf("%s: left is %q", status, left)
		}
	}
}

func TestAddresses(t *testing.T) {
	none := []*computepb.AccessConfig{}
	nat := func(ips ...string) (all []*computepb.AccessConfig) {
		for _, ip := range ips {
			all = append(all, &computepb.AccessConfig{NatIP: proto.String(ip)})
		}
		return all
	}
	for _, tc := range []struct {
		reason, extra string
		configs       []*computepb.AccessConfig
		state         provider.State
		ip, exit      string
	}{
		{"an external one", "", nat("203.0.113.7"), provider.StateRunning, "203.0.113.7", "203.0.113.7"},
		{"no access configuration", "", none, provider.StateProvisioning, "", ""},
		{"an access configuration without address", "", []*computepb.AccessConfig{{}}, provider.StateProvisioning, "", ""},
		{"an empty address before another", "", nat("", "203.0.113.8"), provider.StateRunning, "203.0.113.8", "203.0.113.8"},
		{"internal, without access configuration", "addressType: internal\n", none, provider.StateRunning, "10.", ""},
		{"internal, although there is an external one", "addressType: internal\n", nat("203.0.113.7"), provider.StateRunning, "10.", ""},
	} {
		w := newT(t, gcpemulator.Options{})
		w.extra = tc.extra
		p := w.provider()
		ref, _ := w.create(p)
		w.emulator.SetAccessConfigs(ref.ID, tc.configs...)
		inst := w.get(p, ref)
		if inst.State != tc.state || !strings.HasPrefix(inst.IP, tc.ip) || (inst.IP == "") != (tc.ip == "") || inst.ExitAddress != tc.exit {
			t.Errorf("%s: %s with %q, exit %q, want %s with %q, %q", tc.reason, inst.State, inst.IP, inst.ExitAddress, tc.state, tc.ip, tc.exit)
		}
		if inst.State == provider.StateProvisioning && !strings.Contains(inst.Message, "no external address") {
			t.Errorf("%s: the message is %q", tc.reason, inst.Message)
		}
	}
}

// A spot VM that was preempted says so; one that was stopped by hand does not.
func TestPreemption(t *testing.T) {
	for _, tc := range []struct {
		extra string
		stop  func(*world, string)
		says  string
	}{
		{"provisioning: spot\n", func(w *world, id string) { w.emulator.Preempt(id) }, "the spot VM was preempted"},
		{"provisioning: spot\n", func(w *world, id string) { w.emulator.Stop(id) }, "the VM is terminated"},
		{"", func(w *world, id string) { w.emulator.Stop(id) }, "the VM is terminated"},
	} {
		w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Stop: 2 * time.Second}})
		w.extra = tc.extra
		p := w.provider()
		ref, _ := w.create(p)
		before := w.get(p, ref)
		tc.stop(w, ref.ID)
		w.expect(t, "while it stops", p, ref, "Deleting")
		w.advance(10 * time.Second)
		inst := w.get(w.provider(), ref)
		if inst.State != provider.StateStopped || inst.Message != tc.says || inst.Identity != before.Identity {
			t.Errorf("%+v, want it Stopped: %s", inst, tc.says)
		}
		// That cannot always be read.
		w.emulator.InjectNext(2, gcpemulator.On("zoneOperations.list"), gcpemulator.Fault{Status: 503})
		if inst := w.get(p, ref); inst.State != provider.StateStopped || !strings.Contains(inst.Message, "terminated") {
			t.Errorf("without operations: %+v", inst)
		}
	}
}

// An error of the host makes the VM boot again: the same one.
func TestARebootIsNoOtherInstance(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Boot: 10 * time.Second}})
	p := w.provider()
	ref, _ := w.create(p)
	w.advance(20 * time.Second)
	before := w.get(p, ref)
	w.emulator.Reboot(ref.ID)
	w.expect(t, "while it boots", p, ref, "Provisioning")
	w.advance(20 * time.Second)
	if after := w.get(p, ref); after.Identity != before.Identity || after.State != provider.StateRunning || !after.CreatedAt.Equal(before.CreatedAt) {
		t.Errorf("%+v, before %+v", after, before)
	}
}
