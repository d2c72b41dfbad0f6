package gcpemulator_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func (r *rig) find(filter string) []*computepb.Operation {
	r.Helper()
	found, err := all(r.operations.List(r.Context(), &computepb.ListZoneOperationsRequest{Project: project, Zone: zone, Filter: &filter}).Next)
	must(r.T, err)
	return found
}

func TestARepeatedRequestGetsTheSameOperation(t *testing.T) {
	r := newRig(t, slow())
	token := uuid.NewString()
	first, err := r.insert(body("a"), token)
	must(t, err)
	for _, when := range []string{"in progress", "ended", "gone"} {
		again, err := r.insert(body("a"), token)
		if err != nil || again.GetName() != first.GetName() || again.GetClientOperationId() != token {
			t.Errorf("%s: %v, %v", when, again, err)
		}
		switch when {
		case "in progress":
			r.step(10 * time.Second)
		case "ended":
			if again, _ := r.insert(body("a"), token); again.GetStatus() != computepb.Operation_DONE {
				t.Errorf("%s, but repeated as %v", when, again.GetStatus())
			}
			_, err := r.remove("a")
			must(t, err)
			r.step(time.Minute)
		}
	}
	r.expect("deleted and repeated", "a", "404 notFound")
	r.step(time.Hour)
	again, err := r.insert(body("a"), token)
	if err != nil || again.GetName() == first.GetName() {
		t.Errorf("after an hour: %v, %v", again, err)
	}
}

func TestAFailedRequestIsRememberedToo(t *testing.T) {
	r := newRig(t, gcpemulator.Options{RequestMemory: time.Minute})
	token := uuid.NewString()
	r.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{Late: &gcpemulator.Late{
		Errors: []gcpemulator.OperationError{{Code: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "full"}},
	}})
	for range 2 {
		op, err := r.insert(body("a"), token)
		if err != nil || op.GetError().GetErrors()[0].GetCode() != "ZONE_RESOURCE_POOL_EXHAUSTED" || op.GetHttpErrorStatusCode() != 503 {
			t.Fatalf("%v, %v", op, err)
		}
	}
	r.expect("failed", "a", "404 notFound")
	r.step(time.Minute)
	if op, err := r.insert(body("a"), token); err != nil || op.Error != nil {
		t.Errorf("forgotten, then %v, %v", op, err)
	}
	r.ForgetRequests()
	if _, err := r.insert(body("a"), token); reason(err) != "409 alreadyExists" {
		t.Errorf("forgotten by hand, then %v", err)
	}
}

// A request refused at once leaves no operation, so its ID is free.
func TestARefusedRequestIsNotRemembered(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	token := uuid.NewString()
	restore := r.ExhaustQuota(project)
	if _, err := r.insert(body("a"), token); reason(err) != "403 quotaExceeded" {
		t.Errorf("without quota: %v", err)
	}
	restore()
	_, err := r.insert(body("a"), token)
	must(t, err)
}

func TestARequestIDIsForOneRequest(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	token := uuid.NewString()
	_, err := r.insert(body("a"), token)
	must(t, err)
	other := body("a")
	other.Labels["owner"] = "b"
	if _, err := r.insert(other, token); reason(err) != "400 invalid" {
		t.Errorf("with another body: %v", err)
	}
	_, err = r.instances.Delete(t.Context(), &computepb.DeleteInstanceRequest{
		Project: project, Zone: zone, Instance: "a", RequestId: &token,
	})
	if reason(err) != "400 invalid" {
		t.Errorf("for another method: %v", err)
	}
	_, err = r.instances.Insert(t.Context(), &computepb.InsertInstanceRequest{
		Project: project, Zone: "us-central1-b", InstanceResource: body("a"), RequestId: &token,
	})
	if reason(err) != "400 invalid" || !strings.Contains(err.Error(), "requestId") {
		t.Errorf("in another zone: %v", err)
	}
	r.expect("after all that", "a", "RUNNING")
	for _, bad := range []string{"x", uuid.Nil.String(), "{" + uuid.NewString() + "}"} {
		if _, err := r.insert(body("b"), bad); reason(err) != "400 invalid" {
			t.Errorf("with ID %q: %v", bad, err)
		}
	}
	_, err = r.instances.Insert(t.Context(), &computepb.InsertInstanceRequest{
		Project: "project-b", Zone: zone, InstanceResource: body("a"), RequestId: &token,
	})
	if err != nil {
		t.Errorf("in another project: %v", err)
	}
}

// Whoever lost its memory finds the operation by the requestId, which the operation calls clientOperationId, or by target.
func TestOperationsAreFoundAgain(t *testing.T) {
	r := newRig(t, slow())
	token := uuid.NewString()
	_, err := r.insert(body("a"), token)
	must(t, err)
	r.create("b")
	r.step(2 * time.Second)
	in, err := r.get("a")
	must(t, err)
	for _, filter := range []string{
		fmt.Sprintf("clientOperationId = %q", token),
		fmt.Sprintf("(targetId = %d) (operationType = insert)", in.GetId()),
		fmt.Sprintf("targetLink=%q AND operationType=\"insert\"", in.GetSelfLink()),
		fmt.Sprintf("targetLink eq .*/instances/%s", "a"),
	} {
		if found := r.find(filter); len(found) != 1 || found[0].GetTargetId() != in.GetId() {
			t.Errorf("%s finds %v", filter, found)
		}
	}
	for _, filter := range []string{"status=DONE", "clientOperationId=\"none\"", "insertTime<\"2024-01-01T00:00:00Z\""} {
		if found := r.find(filter); len(found) != 0 {
			t.Errorf("%s finds %v", filter, found)
		}
	}
}

func TestOperationsExpire(t *testing.T) {
	r := newRig(t, gcpemulator.Options{OperationMemory: time.Hour})
	op := r.create("a")
	r.step(59 * time.Minute)
	r.operation(op.GetName())
	r.step(time.Minute)
	_, err := r.operations.Get(t.Context(), &computepb.GetZoneOperationRequest{Project: project, Zone: zone, Operation: op.GetName()})
	if reason(err) != "404 notFound" {
		t.Errorf("an expired operation: %v", err)
	}
	op = r.create("b")
	r.ForgetOperations()
	if found := r.find("name=" + op.GetName()); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}
