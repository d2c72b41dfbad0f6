package gcpemulator_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/api/option"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func itoa(n int) string { return strconv.Itoa(n) }

// client makes one of the SDK's clients and closes it in the end.
func client[C interface{ Close() error }](r *rig, made func(context.Context, ...option.ClientOption) (C, error)) C {
	r.Helper()
	c, err := made(r.Context(), r.options()...)
	must(r.T, err)
	r.Cleanup(func() { must(r.T, c.Close()) })
	return c
}

func slow() gcpemulator.Options {
	return gcpemulator.Options{Delays: gcpemulator.Delays{
		Pending: time.Second, Show: 2 * time.Second, Insert: 10 * time.Second, Staging: 3 * time.Second, Boot: 6 * time.Second,
		Delete: 30 * time.Second, Graceful: 5 * time.Second, Stop: 20 * time.Second, Global: 4 * time.Second,
	}}
}

func TestLifeOfAnInstance(t *testing.T) {
	r := newRig(t, slow())
	op := r.create("a")
	if op.GetStatus() != computepb.Operation_PENDING || op.GetOperationType() != "insert" || op.StartTime != nil {
		t.Errorf("accepted as %v", op)
	}
	r.expect("accepted", "a", "404 notFound")
	if left := r.Leftovers(); len(left) != 2 || !left[0].Pending {
		t.Errorf("accepted, but the probe finds %v", left)
	}
	r.step(2 * time.Second)
	r.expect("visible", "a", "PROVISIONING")
	if op = r.operation(op.GetName()); op.GetStatus() != computepb.Operation_RUNNING {
		t.Errorf("after its PENDING the operation is %v", op.GetStatus())
	}
	r.step(3 * time.Second)
	r.expect("staged", "a", "STAGING")
	in, err := r.get("a")
	must(t, err)
	if nic := in.GetNetworkInterfaces()[0]; nic.GetNetworkIP() == "" || nic.GetAccessConfigs()[0].NatIP != nil {
		t.Errorf("while it boots its interface is %v", nic)
	}
	r.step(5 * time.Second)
	r.expect("booted", "a", "RUNNING")
	if op = r.operation(op.GetName()); op.GetStatus() != computepb.Operation_DONE || op.GetProgress() != 100 || op.Error != nil {
		t.Errorf("in the end the operation is %v", op)
	}
	in, err = r.get("a")
	must(t, err)
	if in.GetNetworkInterfaces()[0].GetAccessConfigs()[0].GetNatIP() == "" || in.GetId() != op.GetTargetId() {
		t.Errorf("it runs as %v, target %d", in, op.GetTargetId())
	}
	made, err := time.Parse(time.RFC3339, in.GetCreationTimestamp())
	if err != nil || !made.Equal(r.clock.Now().Add(-10*time.Second)) {
		t.Errorf("created at %s, %v", in.GetCreationTimestamp(), err)
	}

	gone, err := r.remove("a")
	must(t, err)
	r.expect("being deleted", "a", "STOPPING")
	if _, err := r.insert(body("a"), ""); reason(err) != "409 alreadyExists" {
		t.Errorf("another under its name: %v", err)
	}
	r.step(30 * time.Second)
	r.expect("deleted", "a", "404 notFound")
	if gone = r.operation(gone.GetName()); gone.GetStatus() != computepb.Operation_DONE || gone.GetTargetId() != in.GetId() {
		t.Errorf("the deletion ended as %v", gone)
	}
	if left := r.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAnInstanceIsFoundAndDeletedByItsNumber(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.create("a")
	in, err := r.get("a")
	must(t, err)
	number := strconv.FormatUint(in.GetId(), 10)
	r.expect("by its number", number, "RUNNING")
	if _, err := r.remove(number); err != nil {
		t.Error(err)
	}
	r.create("a")
	r.expect("the next under its name", "a", "RUNNING")
	if _, err := r.remove(number); reason(err) != "404 notFound" {
		t.Errorf("the old number deletes: %v", err)
	}
}

func TestGracefulShutdown(t *testing.T) {
	r := newRig(t, gcpemulator.Options{Delays: gcpemulator.Delays{Graceful: 5 * time.Second, Delete: time.Second}})
	in := body("a")
	in.Scheduling = &computepb.Scheduling{GracefulShutdown: &computepb.SchedulingGracefulShutdown{Enabled: proto.Bool(true)}}
	_, err := r.insert(in, "")
	must(t, err)
	_, err = r.remove("a")
	must(t, err)
	r.expect("at first", "a", "PENDING_STOP")
	r.step(5 * time.Second)
	r.expect("then", "a", "STOPPING")
	r.step(time.Second)
	r.expect("in the end", "a", "404 notFound")
}
