package gcpemulator_test

import (
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"google.golang.org/protobuf/proto"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestAnInsertFailsLate(t *testing.T) {
	for name, tc := range map[string]struct {
		late   gcpemulator.Late
		code   int32
		status string
		left   int
	}{
		"stockout":      {*gcpemulator.Stockout(zone), 503, "404 notFound", 0},
		"quota":         {gcpemulator.Late{Errors: codes("QUOTA_EXCEEDED")}, 403, "404 notFound", 0},
		"addresses":     {gcpemulator.Late{Errors: codes("IP_SPACE_EXHAUSTED")}, 400, "404 notFound", 0},
		"two errors":    {gcpemulator.Late{Errors: codes("ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED")}, 503, "404 notFound", 0},
		"given status":  {gcpemulator.Late{Errors: codes("NEVER_SEEN"), Status: 418}, 418, "404 notFound", 0},
		"leaves a disk": {gcpemulator.Late{Errors: codes("INTERNAL_ERROR"), Leaves: gcpemulator.LeavesDisk}, 503, "404 notFound", 1},
		"leaves all":    {gcpemulator.Late{Errors: codes("INTERNAL_ERROR"), Leaves: gcpemulator.LeavesInstance}, 503, "TERMINATED", 2},
		"warnings only": {gcpemulator.Late{Warnings: codes("DISK_SIZE_LARGER_THAN_IMAGE_SIZE")}, 0, "RUNNING", 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, gcpemulator.Options{Delays: gcpemulator.Delays{Insert: 5 * time.Second}})
			r.InjectOnce(gcpemulator.On(insert), gcpemulator.Fault{Late: &tc.late})
			in := body("a")
			in.Disks[0].AutoDelete = proto.Bool(false) // what failed is cleaned up nevertheless
			op, err := r.insert(in, "")
			must(t, err)
			r.step(4 * time.Second)
			r.expect("until then", "a", "RUNNING")
			r.step(time.Second)
			r.expect("in the end", "a", tc.status)
			op = r.operation(op.GetName())
			if op.GetHttpErrorStatusCode() != tc.code || len(op.GetError().GetErrors()) != len(tc.late.Errors) || len(op.GetWarnings()) != len(tc.late.Warnings) {
				t.Errorf("the operation is %v", op)
			}
			if left := r.Leftovers(); len(left) != tc.left {
				t.Errorf("left %v", left)
			}
		})
	}
}

func codes(codes ...string) (errs []gcpemulator.OperationError) {
	for _, code := range codes {
		errs = append(errs, gcpemulator.OperationError{Code: code, Message: "it is " + code})
	}
	return errs
}

func TestADeletionFailsLate(t *testing.T) {
	for _, leaves := range []gcpemulator.Leaves{gcpemulator.LeavesNothing, gcpemulator.LeavesDisk} {
		r := newRig(t, slow())
		r.create("a")
		r.step(10 * time.Second)
		r.InjectOnce(gcpemulator.On(remove), gcpemulator.Fault{Late: &gcpemulator.Late{Errors: codes("RESOURCE_NOT_READY"), Leaves: leaves}})
		op, err := r.remove("a")
		must(t, err)
		again, err := r.remove("a")
		must(t, err)
		r.expect("while it is tried", "a", "STOPPING")
		r.step(30 * time.Second)
		r.expect("after it failed", "a", map[gcpemulator.Leaves]string{
			gcpemulator.LeavesNothing: "RUNNING", gcpemulator.LeavesDisk: "404 notFound",
		}[leaves])
		for _, op := range []*computepb.Operation{op, again} {
			if op = r.operation(op.GetName()); op.GetError() == nil || op.GetStatus() != computepb.Operation_DONE {
				t.Errorf("the operation is %v", op)
			}
		}
	}
}

// An insert that a deletion overtakes ends with 409.
func TestADeletionOvertakesTheInsert(t *testing.T) {
	r := newRig(t, slow())
	op := r.create("a")
	r.step(2 * time.Second)
	must(t, second(r.remove("a")))
	if op = r.operation(op.GetName()); op.GetHttpErrorStatusCode() != 409 || op.GetStatus() != computepb.Operation_DONE {
		t.Errorf("%v", op)
	}
	r.step(30 * time.Second)
	if left := r.Leftovers(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
