package gcpemulator_test

import (
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A wait is answered when the clock has brought the operation to its end, or two minutes have passed.
func TestWait(t *testing.T) {
	r := newRig(t, gcpemulator.Options{Delays: gcpemulator.Delays{Insert: 10 * time.Second, Delete: time.Hour}})
	wait := func(op *computepb.Operation) (arrived chan struct{}, ended chan computepb.Operation_Status) {
		arrived, ended = make(chan struct{}), make(chan computepb.Operation_Status, 1)
		r.InjectOnce(gcpemulator.On("zoneOperations.wait"), gcpemulator.Fault{OnCall: func() { close(arrived) }})
		go func() {
			op, err := r.operations.Wait(t.Context(), &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.GetName()})
			if err != nil {
				t.Error(err)
			}
			ended <- op.GetStatus()
		}()
		return arrived, ended
	}
	arrived, ended := wait(r.create("a"))
	<-arrived
	r.step(9 * time.Second)
	r.step(time.Second)
	if status := <-ended; status != computepb.Operation_DONE {
		t.Errorf("waited until %v", status)
	}
	op, err := r.remove("a")
	must(t, err)
	arrived, ended = wait(op)
	<-arrived
	r.step(2 * time.Minute)
	if status := <-ended; status != computepb.Operation_RUNNING {
		t.Errorf("waited for two minutes until %v", status)
	}
}
