package gcpemulator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const (
	insert = "instances.insert"
	remove = "instances.delete"
)

func TestTheAnswerIsLost(t *testing.T) {
	for name, f := range map[string]gcpemulator.Fault{
		"no answer": {Reset: true}, "503": {Status: 503}, "HTML": {HTML: true},
	} {
		for _, applied := range []bool{false, true} {
			r := newRig(t, gcpemulator.Options{})
			f.Applied = applied
			r.InjectOnce(gcpemulator.On(insert), f)
			if _, err := r.insert(body("a"), ""); err == nil {
				t.Errorf("%s: no error", name)
			}
			want := map[bool]string{false: "404 notFound", true: "RUNNING"}[applied]
			r.expect(name, "a", want)
			if r.Calls(insert) != 1 {
				t.Errorf("%s: %d calls", name, r.Calls(insert))
			}
		}
	}
}

func TestACallArrivesLate(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.InjectOnce(gcpemulator.On(insert), gcpemulator.Fault{ArriveAfter: 10 * time.Second, Status: 504})
	token := uuid.NewString()
	if _, err := r.insert(body("a"), token); reason(err) != "504 backendError" {
		t.Errorf("%v", err)
	}
	if r.InFlight() != 1 || len(r.Leftovers()) != 0 {
		t.Errorf("in flight %d, left %v", r.InFlight(), r.Leftovers())
	}
	_, err := r.insert(body("a"), token) // overtakes the first, which then finds its ID known
	must(t, err)
	r.step(10 * time.Second)
	if r.InFlight() != 0 || len(r.Leftovers()) != 2 || len(r.find("")) != 1 {
		t.Errorf("in flight %d, left %v", r.InFlight(), r.Leftovers())
	}
	r.InjectOnce(gcpemulator.On(remove), gcpemulator.Fault{ArriveAfter: time.Second})
	if err := second(r.remove("a")); reason(err) != "no answer" {
		t.Errorf("%v", err)
	}
	r.expect("before it arrives", "a", "RUNNING")
	r.step(time.Second)
	r.expect("arrived", "a", "404 notFound")
}

func TestWhatIsAcceptedShowsLate(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.InjectOnce(gcpemulator.On(insert), gcpemulator.Fault{ShowAfter: 20 * time.Second})
	op := r.create("a")
	r.step(19 * time.Second)
	r.expect("accepted", "a", "404 notFound")
	if op = r.operation(op.GetName()); op.GetStatus() != computepb.Operation_RUNNING {
		t.Errorf("%v", op)
	}
	if names, _, _ := r.names("", 500); len(names) != 0 {
		t.Errorf("listed %v", names)
	}
	r.step(time.Second)
	r.expect("shown", "a", "RUNNING")
}

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
			op := r.create("a")
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

func TestCallsAreHeld(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, after := range []bool{false, true} {
		hold := map[bool]func(gcpemulator.Match) (<-chan struct{}, func()){false: r.Hold, true: r.HoldAnswer}[after]
		name := map[bool]string{false: "a", true: "b"}[after]
		reached, release := hold(gcpemulator.Match{Call: insert, Name: name, Zone: zone, Project: project})
		done := make(chan error, 1)
		go func() { done <- second(r.insert(body(name), "")) }()
		<-reached
		r.expect("held", name, map[bool]string{false: "404 notFound", true: "RUNNING"}[after])
		release()
		must(t, <-done)
		r.expect("released", name, "RUNNING")
	}
}

func TestACallHangsUntilItsCallerGivesUp(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, f := range []gcpemulator.Fault{{Hang: true}, {Hold: make(chan struct{})}} {
		r.InjectOnce(gcpemulator.On("instances.get"), f)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := r.instances.Get(ctx, &computepb.GetInstanceRequest{Project: project, Zone: zone, Instance: "a"})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}
}

func TestRateLimits(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	r.create("a")
	remove := r.LimitRate(gcpemulator.On("instances.get"), 2, 403, "30")
	r.status("a")
	r.status("a")
	api := asAPI(t, second(r.get("a")))
	if api.Code != 403 || api.Errors[0].Reason != "rateLimitExceeded" || api.Header.Get("Retry-After") != "30" {
		t.Errorf("%#v", api)
	}
	r.step(time.Minute)
	r.expect("a minute later", "a", "RUNNING")
	remove()
	for range 5 {
		r.expect("without the limit", "a", "RUNNING")
	}
}

func TestFaultsAreForWhatMatches(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	restore := r.Inject(gcpemulator.Match{Name: "a"}, gcpemulator.Fault{Status: 500})
	r.InjectNext(2, gcpemulator.Match{Zone: "europe-*"}, gcpemulator.Fault{Status: 500})
	if _, err := r.insert(body("a"), ""); reason(err) != "500 backendError" {
		t.Error(err)
	}
	r.create("b")
	restore()
	r.create("a")
}
