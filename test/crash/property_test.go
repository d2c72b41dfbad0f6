package crash

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// staleClient answers reads of the Proxy with an old copy while it is frozen.
type staleClient struct {
	client.Client
	frozen *v1alpha1.Proxy
}

func (c *staleClient) Get(ctx context.Context, k client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if p, ok := obj.(*v1alpha1.Proxy); ok && c.frozen != nil {
		c.frozen.DeepCopyInto(p)
		return nil
	}
	return c.Client.Get(ctx, k, obj, opts...)
}

// TestAnything lets anything happen to one Proxy, in any order, and checks after each step that there are never two
// instances at one time and that nothing is released while something is left; when the faults end, it must converge.
//
// rapid prints the seed of a failure and shrinks it: go test ./test/crash -run TestAnything -rapid.seed=…
func TestAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]providertest.Kind{providertest.KindGCP, providertest.KindEC2, providertest.KindName}).Draw(t, "kind")
		vis := rapid.SampledFrom([]visibility{
			{name: "at once"}, {name: "after 20 s", delay: 20 * time.Second}, {name: "at once, lists lag", lag: 40 * time.Second},
		}).Draw(t, "visibility")
		happen(t, onMemory(kind), vis)
	})
}

// happen lets anything happen on that ground.
func happen(t *rapid.T, on ground, vis visibility) {
	w := newWorld(on, vis, 7)
	defer w.close()
	a := &anything{w: w, t: t}
	w.backend.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
		f, a.fault = a.fault, providertest.Fault{}
		if f == (providertest.Fault{}) && (op == providertest.OpCreate || op == providertest.OpDelete) {
			f, a.change = a.change, providertest.Fault{}
		}
		return f
	})
	w.create()
	t.Repeat(map[string]func(*rapid.T){
		"pass":   func(*rapid.T) { a.pass() },
		"pass 2": func(*rapid.T) { a.pass() },
		"calm": func(t *rapid.T) { // without some, hardly any run would come as far as a Ready
			for range rapid.IntRange(1, 20).Draw(t, "passes") {
				w.pass()
				a.check()
			}
		},
		"time":    func(t *rapid.T) { w.clock.Step(time.Duration(rapid.IntRange(1, 200).Draw(t, "seconds")) * time.Second) },
		"port":    func(t *rapid.T) { toPort(int32(rapid.IntRange(1, 2).Draw(t, "port")))(w) },
		"zone":    func(t *rapid.T) { toZone(rapid.SampledFrom([]string{"zone-a", "zone-b"}).Draw(t, "zone"))(w) },
		"ask":     func(t *rapid.T) { ask(fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "value")))(w) },
		"delete":  func(*rapid.T) { w.delete() },
		"anew":    func(*rapid.T) { a.anew() },
		"restart": func(*rapid.T) { a.restart() },
		"kill":    func(t *rapid.T) { a.kill(t) },
		"freeze":  func(*rapid.T) { a.stale().frozen = w.get() },
		"thaw":    func(*rapid.T) { a.stale().frozen = nil },
		"engine":  func(*rapid.T) { w.health.follow(w.get()) }, // it may be behind
		"probe":   func(*rapid.T) { w.probe(w.get()) },
		"foreign": func(t *rapid.T) { w.interfere = rapid.SampledFrom([]moment{before, answered}).Draw(t, "moment") },
		"error":   func(t *rapid.T) { a.fault.Err = errors.Join(errors.New("fault"), a.class(t)) },
		"lost":    func(t *rapid.T) { a.change = providertest.Fault{Err: errors.New("lost"), Applied: true} },
		"late":    func(t *rapid.T) { a.change = providertest.Fault{ArriveAfter: a.late(t)} },
		"fails": func(t *rapid.T) {
			a.change = providertest.Fault{FailLate: a.class(t), LeaveParts: rapid.Bool().Draw(t, "parts")}
		},
		"parts":    func(*rapid.T) { a.change = providertest.Fault{LeaveParts: true} },
		"instance": func(t *rapid.T) { a.befall(t) },
		"moves":    func(*rapid.T) { a.move() },
		"unread": func(t *rapid.T) {
			w.backend.unread(rapid.SampledFrom([]string{"zone-a", "zone-b"}).Draw(t, "zone"), rapid.Bool().Draw(t, "unread"))
		},
		"": func(*rapid.T) { a.check() },
	})
	a.heal()
}

// anything is a world to which anything may happen.
type anything struct {
	w      *world
	t      *rapid.T
	fault  providertest.Fault // of the next call
	change providertest.Fault // of the next one that changes something
	uids   int
}

// stale returns the client between the operator and the API server, which can be frozen.
func (a *anything) stale() *staleClient {
	if c, ok := a.w.r.Client.(*staleClient); ok {
		return c
	}
	c := &staleClient{Client: a.w.r.Client}
	a.w.r.Client = c
	return c
}

func (a *anything) pass() {
	_, dead := a.w.reconcile()
	if dead {
		a.restart()
	}
	a.w.clock.Step(100 * time.Millisecond)
}

func (a *anything) restart() {
	a.w.restart()
	a.w.killAt = -1
}

func (a *anything) kill(t *rapid.T) {
	a.w.killAt = len(a.w.effects)
	a.w.when = rapid.SampledFrom([]moment{before, answered}).Draw(t, "moment")
}

func (a *anything) class(t *rapid.T) error {
	return rapid.SampledFrom([]error{provider.ErrTransient, provider.ErrPermanent, provider.ErrQuotaExceeded, provider.ErrDenied}).Draw(t, "class")
}

// late is how late a call arrives: never later than its deadline, which the operator's own call has too.
func (a *anything) late(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(1, int(callTimeout/time.Second)-1).Draw(t, "late")) * time.Second
}

// befall lets something happen to the instance without the operator's doing.
func (a *anything) befall(t *rapid.T) {
	for _, i := range a.w.backend.Instances() {
		switch rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			a.w.backend.Stop(i.ID, "")
		case 1:
			a.w.backend.Terminate(i.ID)
		case 2:
			a.w.backend.Vanish(i.ID)
		case 3:
			a.w.backend.Confuse(i.ID)
		case 4:
			a.w.backend.Start(i.ID)
		case 5:
			a.w.backend.LoseMain(i.ID)
		}
	}
}

// move gives every instance another address, as a restart at the backend does.
func (a *anything) move() {
	for _, i := range a.w.backend.Instances() {
		a.w.backend.Start(i.ID)
	}
}

// anew creates the Proxy again under its name, with another UID, once it is gone.
func (a *anything) anew() {
	if a.w.get() == nil {
		a.uids++
		a.w.createAs(types.UID(fmt.Sprintf("6f1c3d1e-0000-4000-8000-%012d", a.uids+1)))
	}
}

func (a *anything) check() {
	a.w.look()
	if a.w.maxVisible > 1 {
		a.t.Fatalf("%d instances at one time: %v", a.w.maxVisible, a.w.backend.Instances())
	}
	if err := errors.Join(a.w.released, a.w.lied); err != nil {
		a.t.Fatal(err)
	}
}

// heal ends all faults and waits for the end that each Proxy must come to.
func (a *anything) heal() {
	w := a.w
	a.fault, a.change, w.killAt, w.interfere, a.stale().frozen = providertest.Fault{}, providertest.Fault{}, -1, never, nil
	for _, zone := range []string{"zone-a", "zone-b"} {
		w.backend.unread(zone, false)
	}
	a.move() // what nobody understood is understood again
	deleting := w.get() != nil && !w.get().DeletionTimestamp.IsZero()
	settle := func(what string, done func() bool) {
		for range 3000 {
			if done() {
				return
			}
			w.pass()
			a.check()
		}
		a.t.Fatalf("%s: not within 3000 passes; instances %v; object %+v", what, w.backend.Instances(), w.get())
	}
	if w.get() != nil && !deleting {
		settle("alive", func() bool { return w.converged() == nil })
		w.delete()
	}
	settle("deleted", func() bool { return w.get() == nil })
	w.clock.Step(time.Hour)
	for range 2 {
		w.poll()
		w.clock.Step(time.Hour)
	}
	if err := w.empty(); err != nil {
		a.t.Fatal(err)
	}
}
