package gcpemulator_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"
	"github.com/google/uuid"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestCallbacksFollowWhatRuns(t *testing.T) {
	var seen []string
	opts := slow()
	opts.OnRunning = func(vm gcpemulator.VM) {
		seen = append(seen, "+"+vm.Name+" "+vm.ExternalIP+" "+vm.Metadata["user-data"])
	}
	opts.OnGone = func(vm gcpemulator.VM) { seen = append(seen, "-"+vm.Name+" "+vm.ExternalIP) }
	opts.Addresses = []string{"127.0.82.1", "127.0.82.2"}
	r := newRig(t, opts)
	id := gcpemulator.ID(project, zone, "a")
	r.create("a")
	r.step(8 * time.Second)
	r.Settle()
	r.Preempt(id)
	r.step(time.Minute)
	r.Start(id)
	r.step(6 * time.Second)
	r.Settle()
	must(t, second(r.remove("a")))
	r.step(30 * time.Second)
	r.Settle()
	want := []string{"+a 127.0.82.1 #cloud-config", "-a 127.0.82.1", "+a 127.0.82.2 #cloud-config", "-a 127.0.82.2"}
	if !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

func TestACallbackMayUseTheEmulator(t *testing.T) {
	var e *gcpemulator.Emulator
	gone := 0
	e = gcpemulator.New(gcpemulator.Options{
		OnRunning: func(vm gcpemulator.VM) { e.Vanish(gcpemulator.ID(vm.Project, vm.Zone, vm.Name)) },
		OnGone:    func(gcpemulator.VM) { gone++ },
	})
	e.Place(gcpemulator.ID(project, zone, "a"), nil)
	if left := e.Leftovers(); len(left) != 0 || gone != 1 {
		t.Errorf("left %v, gone %d", left, gone)
	}
}

func TestTheRealClock(t *testing.T) {
	r := newRig(t, gcpemulator.Options{Clock: clock.RealClock{}, Delays: gcpemulator.Delays{Insert: 20 * time.Millisecond, Boot: 10 * time.Millisecond}})
	op, err := r.instances.Insert(t.Context(), &computepb.InsertInstanceRequest{Project: project, Zone: zone, InstanceResource: body("a")})
	must(t, err)
	ended, err := r.operations.Wait(t.Context(), &computepb.WaitZoneOperationRequest{Project: project, Zone: zone, Operation: op.Name()})
	if err != nil || ended.GetStatus() != computepb.Operation_DONE {
		t.Errorf("%v, %v", ended, err)
	}
	r.expect("waited for", "a", "RUNNING")
}

// However many callers race, a name is one instance and a requestId one operation.
func TestConcurrentCalls(t *testing.T) {
	r := newRig(t, gcpemulator.Options{ListLag: time.Second, Delays: gcpemulator.Delays{Boot: time.Second, Delete: time.Second}})
	const names, callers = 4, 3
	tokens := map[string]string{}
	for i := range names {
		tokens[fmt.Sprintf("i-%d", i)] = uuid.NewString()
	}
	var mu sync.Mutex
	operations := map[string]map[string]bool{}
	var wg sync.WaitGroup
	for range callers {
		for name, token := range tokens {
			wg.Go(func() {
				op, err := r.insert(body(name), token)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if operations[name] == nil {
					operations[name] = map[string]bool{}
				}
				operations[name][op.GetName()] = true
				mu.Unlock()
				r.step(100 * time.Millisecond)
				if _, _, err := r.names("labels.managed=true", 1); err != nil {
					t.Error(err)
				}
				r.status(name)
			})
		}
	}
	wg.Wait()
	for name, ops := range operations {
		if len(ops) != 1 {
			t.Errorf("%s has %d operations", name, len(ops))
		}
	}
	if left := r.Leftovers(); len(left) != 2*names {
		t.Errorf("left %v", left)
	}
	for name := range tokens {
		for range callers {
			wg.Go(func() { _, _ = r.remove(name) })
		}
	}
	wg.Wait()
	r.step(time.Second)
	if left := r.Leftovers(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestCloseBreaksOffWhatHangs(t *testing.T) {
	r := newRig(t, gcpemulator.Options{})
	reached, _ := r.Hold(gcpemulator.On("instances.get"))
	done := make(chan error, 1)
	go func() { done <- second(r.get("a")) }()
	<-reached
	must(t, r.Close())
	if err := <-done; err == nil {
		t.Error("the call was answered")
	}
}
