package providertest_test

import (
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

var owner = provider.Owner{Installation: "inst", Cluster: "cluster"}

// cloud is a backend with one request on record.
type cloud struct {
	*testing.T
	*providertest.Backend
	clock *clocktesting.FakePassiveClock
	p     *providertest.Stateful
	req   provider.CreateRequest
	ref   provider.Ref
}

func newCloud(t *testing.T, kind providertest.Kind, opts providertest.BackendOptions) *cloud {
	t.Helper()
	c := &cloud{T: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))}
	c.Backend = providertest.NewBackend(kind, c.clock, opts)
	c.p = c.Provider("exits", owner, provider.Window{Clock: c.clock, CallTimeout: 30 * time.Second, Skew: 5 * time.Second})
	c.req = provider.CreateRequest{Name: provider.NameFromUID("u"), UID: "u", Port: 3128}
	id, err := c.p.Plan(t.Context(), c.req)
	if err != nil {
		t.Fatal(err)
	}
	c.ref = provider.Ref{ID: id, UID: "u", Attempt: 1, RequestedAt: c.clock.Now()}
	return c
}

func (c *cloud) step(d time.Duration) { c.clock.SetTime(c.clock.Now().Add(d)) }

// state returns what Get says, as text.
func (c *cloud) state() string {
	inst, err := c.p.Get(c.Context(), c.ref)
	if err != nil {
		return provider.ClassName(err)
	}
	return string(inst.State)
}

func (c *cloud) expect(when, want string) {
	c.Helper()
	if got := c.state(); got != want {
		c.Errorf("%s: Get says %s, want %s", when, got, want)
	}
}

func (c *cloud) create() {
	c.Helper()
	if err := c.p.Create(c.Context(), c.req, c.ref); err != nil {
		c.Fatalf("Create = %v", err)
	}
}

func TestLifeOnASlowBackend(t *testing.T) {
	c := newCloud(t, providertest.KindGCP, slow())
	c.create()
	if left := c.Instances(); len(left) != 1 || !left[0].Pending {
		t.Errorf("accepted, but the probe finds %v", left)
	}
	c.expect("accepted", "Provisioning")
	c.step(2 * time.Second)
	c.expect("visible", "Provisioning")
	c.step(5 * time.Second)
	c.expect("booted", "Running")
	first, _ := c.p.Get(t.Context(), c.ref)
	c.Stop(c.ref.ID, "preempted")
	c.expect("stopped", "Stopped")
	c.Start(c.ref.ID)
	if again, _ := c.p.Get(t.Context(), c.ref); again.IP == first.IP || again.Identity != first.Identity {
		t.Errorf("started again as %+v, before it was %+v: want another address and the same identity", again, first)
	}
	if err := c.p.Delete(t.Context(), c.ref); err != nil {
		t.Fatal(err)
	}
	c.expect("deleted", "Deleting")
	c.step(4 * time.Second)
	c.expect("gone", "not_found") // the operation has ended: no window to wait for
	if l, err := c.p.ListByTag(t.Context()); err != nil || len(l.Instances) != 1 {
		t.Errorf("a list that lags by 3 s shows %v, %v right after", l, err)
	}
	c.step(3 * time.Second)
	if l, _ := c.p.ListByTag(t.Context()); len(l.Instances) != 0 {
		t.Errorf("a list that lags by 3 s shows %v after 3 s", l)
	}
}

func TestWhatKindsRememberOfACreationThatFailsLate(t *testing.T) {
	for _, tc := range []struct {
		kind   providertest.Kind
		memory time.Duration
		soon   string
		later  string
	}{
		{providertest.KindGCP, 0, "Failed", "Failed"},
		{providertest.KindGCP, time.Second, "Provisioning", "not_found"},
		{providertest.KindEC2, 0, "Provisioning", "not_found"},
		{providertest.KindName, 0, "Provisioning", "not_found"},
	} {
		t.Run(string(tc.kind)+"/"+tc.memory.String(), func(t *testing.T) {
			c := newCloud(t, tc.kind, providertest.BackendOptions{TokenMemory: tc.memory})
			c.OnCall(func(string, provider.Ref) providertest.Fault {
				return providertest.Fault{FailLate: provider.ErrQuotaExceeded}
			})
			c.create()
			c.step(2 * time.Second)
			c.expect("after the failure", tc.soon)
			c.step(time.Minute)
			c.expect("after the window", tc.later)
		})
	}
}

func TestACallThatArrivesLate(t *testing.T) {
	for _, kind := range providertest.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			c := newCloud(t, kind, providertest.BackendOptions{})
			c.OnCall(func(op string, _ provider.Ref) (f providertest.Fault) {
				if op == providertest.OpCreate && c.Calls(op) == 1 {
					f.ArriveAfter = 10 * time.Second
				}
				return f
			})
			if err := c.p.Create(t.Context(), c.req, c.ref); !errors.Is(err, provider.ErrTransient) {
				t.Errorf("Create = %v, want a time-out", err)
			}
			if c.InFlight() != 1 || len(c.Instances()) != 0 {
				t.Errorf("in flight %d, left %v", c.InFlight(), c.Instances())
			}
			c.create() // the second call overtakes the first, which then finds the name or the token taken
			c.step(10 * time.Second)
			if c.InFlight() != 0 || len(c.Instances()) != 1 {
				t.Errorf("in flight %d, left %v: want one instance", c.InFlight(), c.Instances())
			}
			c.expect("in the end", "Running")
		})
	}
}

func TestADeletionThatFailsLate(t *testing.T) {
	c := newCloud(t, providertest.KindName, slow())
	c.create()
	c.step(10 * time.Second)
	c.OnCall(func(string, provider.Ref) providertest.Fault { return providertest.Fault{FailLate: errors.New("busy")} })
	if err := c.p.Delete(t.Context(), c.ref); err != nil {
		t.Fatal(err)
	}
	c.expect("while it is tried", "Deleting")
	c.step(4 * time.Second)
	c.expect("after it failed", "Running")
}

func TestCapacityIsPerZone(t *testing.T) {
	c := newCloud(t, providertest.KindEC2, providertest.BackendOptions{Capacity: 1})
	c.create()
	for zone, want := range map[string]string{"zone-a": "quota_exceeded", "zone-b": "ok"} {
		req := provider.CreateRequest{
			Name: provider.NameFromUID(zone), UID: zone, Port: 1, Placement: provider.Placement{Zone: zone},
		}
		id, err := c.p.Plan(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		err = c.p.Create(t.Context(), req, provider.Ref{ID: id, UID: zone, Attempt: 1, RequestedAt: c.clock.Now()})
		if got := provider.ClassName(err); got != want {
			t.Errorf("Create in %s = %v, want %s", zone, err, want)
		}
	}
}

func TestAnUnreadZoneHidesOnlyItself(t *testing.T) {
	c := newCloud(t, providertest.KindGCP, providertest.BackendOptions{})
	c.create()
	c.SetUnread("zone-b", true)
	l, err := c.p.ListByTag(t.Context())
	if err != nil || len(l.Instances) != 1 || len(l.Unread) != 1 || l.Unread[0] != "zone-b" {
		t.Errorf("ListByTag = %+v, %v", l, err)
	}
	c.expect("in the other zone", "Running")
}

// A hook that panics is a crash of the process in the middle of a call; the backend must go on.
func TestACrashLeavesTheBackendUsable(t *testing.T) {
	c := newCloud(t, providertest.KindGCP, providertest.BackendOptions{})
	c.OnCall(func(op string, _ provider.Ref) providertest.Fault {
		if op == providertest.OpCreate {
			panic("crash")
		}
		return providertest.Fault{}
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the crash was swallowed")
			}
		}()
		_ = c.p.Create(t.Context(), c.req, c.ref)
	}()
	c.OnCall(nil)
	c.create()
	c.expect("after the restart", "Running")
}

func TestPlaceRefusesMistakes(t *testing.T) {
	c := newCloud(t, providertest.KindGCP, providertest.BackendOptions{})
	c.Place(c.ref.ID, nil, 1)
	for _, id := range []string{c.ref.ID, "zones/nowhere/instances/a", ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Place(%q) was accepted", id)
				}
			}()
			c.Place(id, nil, 1)
		}()
	}
	if c.Vanish("zones/zone-b/instances/none") {
		t.Error("an instance that is not there has vanished")
	}
}
