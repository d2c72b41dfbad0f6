package gcpemulator_test

import (
	"strings"
	"testing"
	"time"

	compute "cloud.google.com/go/compute/apiv1"
	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestStatusesByHand(t *testing.T) {
	r := newRig(t, slow())
	id := gcpemulator.ID(project, zone, "a")
	number := r.Place(id, map[string]string{"team": "other"})
	for _, status := range []string{"SUSPENDING", "SUSPENDED", "REPAIRING", "DEPROVISIONING", "STOPPED", "FROZEN_SOLID", "RUNNING"} {
		if !r.SetStatus(id, status) {
			t.Fatal("there is no such instance")
		}
		r.expect("by hand", "a", status)
	}
	r.Stop(id)
	r.expect("stopped", "a", "STOPPING")
	r.step(20 * time.Second)
	r.expect("stopped for good", "a", "TERMINATED")
	in, err := r.get("a")
	must(t, err)
	if in.GetId() != number || in.GetNetworkInterfaces()[0].GetAccessConfigs()[0].NatIP != nil {
		t.Errorf("stopped as %v", in)
	}
	r.Start(id)
	r.expect("started", "a", "PROVISIONING")
	r.step(6 * time.Second)
	r.expect("booted", "a", "RUNNING")
	for _, absent := range []string{"", "x", gcpemulator.ID(project, zone, "b"), gcpemulator.ID("x", zone, "a")} {
		if r.Stop(absent) {
			t.Errorf("%q was stopped", absent)
		}
	}
}

func TestPreemption(t *testing.T) {
	r := newRig(t, slow())
	id := gcpemulator.ID(project, zone, "a")
	r.Place(id, nil)
	r.Preempt(id)
	r.expect("preempted", "a", "STOPPING")
	r.step(20 * time.Second)
	r.expect("then", "a", "TERMINATED")
	in, err := r.get("a")
	must(t, err)
	found := r.find(`operationType="compute.instances.preempted" AND targetLink="` + in.GetSelfLink() + `"`)
	if len(found) != 1 || found[0].GetStatus() != computepb.Operation_DONE || found[0].GetStatusMessage() != "Instance was preempted." || found[0].GetUser() != "system" {
		t.Errorf("found %v", found)
	}
}

func TestReboot(t *testing.T) {
	r := newRig(t, slow())
	id := gcpemulator.ID(project, zone, "a")
	number := r.Place(id, nil)
	r.Reboot(id)
	r.expect("the host failed", "a", "PROVISIONING")
	r.step(6 * time.Second)
	r.expect("again", "a", "RUNNING")
	if in, err := r.get("a"); err != nil || in.GetId() != number {
		t.Errorf("%v, %v", in, err)
	}
	if found := r.find("operationType=compute.instances.hostError"); len(found) != 1 {
		t.Errorf("found %v", found)
	}
}

func TestAccessConfigsByHand(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	id := gcpemulator.ID(project, zone, "a")
	r.Place(id, nil)
	for _, configs := range [][]*computepb.AccessConfig{nil, {{}}, {{}, {}}} {
		r.SetAccessConfigs(id, configs...)
		in, err := r.get("a")
		must(t, err)
		got := in.GetNetworkInterfaces()[0].GetAccessConfigs()
		if len(got) != len(configs) || (len(got) > 0 && got[0].NatIP != nil) {
			t.Errorf("%v", got)
		}
	}
}

func TestAnInstanceWithoutExternalAddress(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	in := body("a")
	in.NetworkInterfaces[0].AccessConfigs = nil
	must(t, second(r.insert(in, "")))
	in, err := r.get("a")
	must(t, err)
	if nic := in.GetNetworkInterfaces()[0]; nic.GetNetworkIP() == "" || len(nic.GetAccessConfigs()) != 0 {
		t.Errorf("%v", nic)
	}
}

func TestPartsAreLost(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	disks := client(r, compute.NewDisksRESTClient)
	r.create("a")
	r.create("b")
	get := func(name string) error {
		return second(disks.Get(t.Context(), &computepb.GetDiskRequest{Project: project, Zone: zone, Disk: name}))
	}
	drop := func(name string) error {
		return second(disks.Delete(t.Context(), &computepb.DeleteDiskRequest{Project: project, Zone: zone, Disk: name}))
	}
	if err := drop("a"); reason(err) != "400 resourceInUseByAnotherResource" {
		t.Errorf("a disk in use: %v", err)
	}
	r.LoseMain(gcpemulator.ID(project, zone, "a"))
	r.expect("lost", "a", "404 notFound")
	must(t, get("a"))
	if _, err := r.insert(body("a"), ""); reason(err) != "409 alreadyExists" || !strings.Contains(err.Error(), "/disks/a") {
		t.Errorf("over a disk that is left: %v", err)
	}
	must(t, drop("a"))
	r.Vanish(gcpemulator.ID(project, zone, "b"))
	for _, name := range []string{"a", "b"} {
		if err := get(name); reason(err) != "404 notFound" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left := r.Leftovers(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestPlaceRefusesMistakes(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	id := gcpemulator.ID(project, zone, "a")
	r.Place(id, nil)
	for _, id := range []string{id, gcpemulator.ID(project, "nowhere", "a"), gcpemulator.ID("nothing", zone, "a"), ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Place(%q) was accepted", id)
				}
			}()
			r.Place(id, nil)
		}()
	}
	r.expect("after that", "a", "RUNNING")
}

func TestHoldBoot(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	release := r.HoldBoot()
	r.create("a")
	r.step(24 * time.Hour)
	r.expect("held", "a", "STAGING")
	release()
	r.expect("released", "a", "RUNNING")
	r.create("b")
	r.expect("another", "b", "RUNNING")
}
