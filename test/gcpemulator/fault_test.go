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

// However far the clock steps, things happen in the order of their times.
func TestCallsArriveInOrder(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	for _, late := range []time.Duration{20 * time.Second, 10 * time.Second} {
		r.InjectOnce(gcpemulator.On(insert), gcpemulator.Fault{ArriveAfter: late})
		in := body("a")
		in.Labels["late"] = itoa(int(late.Seconds()))
		_, _ = r.insert(in, "")
	}
	r.step(time.Hour)
	if in, err := r.get("a"); err != nil || in.GetLabels()["late"] != "10" {
		t.Errorf("%v, %v", in, err)
	}
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
