package gcp_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// slow is Compute Engine with everything that takes time.
func slow() gcpemulator.Options {
	return gcpemulator.Options{Delays: gcpemulator.Delays{
		Pending: time.Second, Show: 2 * time.Second, Insert: 6 * time.Second, Staging: 3 * time.Second, Boot: 8 * time.Second, Delete: 4 * time.Second, Stop: 2 * time.Second, Global: time.Second,
	}, ListLag: 3 * time.Second}
}

func TestConforms(t *testing.T) {
	t.Parallel()
	forgetful := slow()
	forgetful.OperationMemory = time.Second
	for name, opts := range map[string]gcpemulator.Options{
		"at once": {}, "slow": slow(), "operations expire": forgetful,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &skips{T: providertest.Go(t), all: new([]string)}
			providertest.Run(seen, func(t providertest.T) *providertest.Env { return newWorld(t, opts).conformance() })
			want := []string{
				// Credentials are in the cloud-init: others need another VM.
				"update-credentials-changes-them", "update-credentials-spares-others",
				// The API is asked.
				"watch-ends-with-its-context", "watch-tells-only-of-own", "watch-tells-what-comes", "watch-tells-what-ends", "watch-tells-what-is-gone", "watch-tells-what-is-there",
			}
			slices.Sort(*seen.all)
			if !slices.Equal(*seen.all, want) {
				t.Errorf("skipped were\n%s\nwant\n%s", strings.Join(*seen.all, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// skips is a T that remembers which parts were skipped.
type skips struct {
	providertest.T
	name string
	all  *[]string
}

func (s *skips) Run(name string, f func(providertest.T)) bool {
	return s.T.Run(name, func(t providertest.T) { f(&skips{T: t, name: name, all: s.all}) })
}

func (s *skips) Skipf(format string, args ...any) {
	*s.all = append(*s.all, s.name)
	s.T.Skipf(format, args...)
}

// conformance is what the suite needs to know of the world.
func (w *world) conformance() *providertest.Env {
	bad := func(field, value string, change func(*provider.CreateRequest)) providertest.Invalid {
		req := w.request()
		change(&req)
		return providertest.Invalid{Request: req, Field: field, Value: value}
	}
	insert, get, remove := gcpemulator.On("instances.insert"), gcpemulator.On("instances.get"), gcpemulator.On("instances.delete")
	return &providertest.Env{
		Provider: func(name string, o provider.Owner) provider.Provider { return w.providerOf(name, o) },
		Owner:    owner,
		Request:  w.request,
		Invalid: []providertest.Invalid{
			bad("placement.zone", "", func(r *provider.CreateRequest) { r.Placement.Zone = "" }),
			bad("placement.zone", "us-central1", func(r *provider.CreateRequest) { r.Placement.Zone = "us-central1" }),
			bad("placement.zone", "../zone", func(r *provider.CreateRequest) { r.Placement.Zone = "../zone" }),
			bad("placement.region", "us-central1-a", func(r *provider.CreateRequest) { r.Placement = provider.Placement{Region: "us-central1-a"} }),
			bad("placement.region", "europe-west1", func(r *provider.CreateRequest) { r.Placement.Region = "europe-west1" }),
			bad("placement.machineType", "", func(r *provider.CreateRequest) { r.Placement.MachineType = "" }),
			bad("placement.machineType", "e2 micro", func(r *provider.CreateRequest) { r.Placement.MachineType = "e2 micro" }),
			bad("placement.image", "", func(r *provider.CreateRequest) { r.Placement.Image = "" }),
			bad("placement.image", "debian 12", func(r *provider.CreateRequest) { r.Placement.Image = "debian 12" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
			bad("name", "proxy-somebody", func(r *provider.CreateRequest) { r.Name = "proxy-somebody" }),
			bad("cloudInit", "262145", func(r *provider.CreateRequest) { r.CloudInit = strings.Repeat("#", 262145) }),
		},
		ForeignIDs:   []string{"projects/project-b/zones/us-central1-a/instances/" + provider.NameFromUID("x")},
		MalformedIDs: []string{"projects/project-a/zones/us-central1-a/instances/", "projects/project-a/zones//instances/" + provider.NameFromUID("x"), "zones/us-central1-a/instances/" + provider.NameFromUID("x")},
		Window:       w.window,
		Wait:         func(ctx context.Context) error { w.advance(time.Second); return ctx.Err() },
		Leftovers:    w.leftovers,
		Many:         600, // more than a page; 1,100 are in TestEveryPageIsListed

		Advance:    w.advance,
		HoldBoot:   w.emulator.HoldBoot,
		HoldCreate: func() (<-chan struct{}, func()) { return w.emulator.Hold(get) },
		HoldGet:    func() (<-chan struct{}, func()) { return w.emulator.Hold(get) },
		HoldSend:   func() (<-chan struct{}, func()) { return w.emulator.Hold(insert) },
		HoldDelete: func() (<-chan struct{}, func()) { return w.emulator.Hold(remove) },
		LoseAnswer: func() { w.emulator.InjectOnce(insert, gcpemulator.Fault{Reset: true, Applied: true}) },
		ArriveLate: func(d time.Duration) { w.emulator.InjectOnce(insert, gcpemulator.Fault{ArriveAfter: d}) },
		ShowLate:   func(d time.Duration) { w.emulator.InjectOnce(insert, gcpemulator.Fault{ShowAfter: d}) },
		FailLate: func(class error, leave bool) {
			late := &gcpemulator.Late{Errors: []gcpemulator.OperationError{{Code: codeOf(class), Message: "the creation failed"}}}
			if leave {
				late.Leaves = gcpemulator.LeavesDisk
			}
			w.emulator.InjectOnce(insert, gcpemulator.Fault{Late: late})
		},
		Place: w.place,
		Stop:  func(id string) { w.emulator.Stop(id); w.advance(10 * time.Second) },
		Terminate: func(id string) {
			w.emulator.Preempt(id)
			w.advance(10 * time.Second)
		},
		Confuse:    func(id string) { w.emulator.SetStatus(id, "CONTEMPLATING") },
		Vanish:     func(id string) { w.emulator.Vanish(id) },
		LoseMain:   func(id string) { w.emulator.LoseMain(id) },
		BreakScope: w.breakScope,
		ExhaustQuota: func() func() {
			return w.emulator.Inject(insert, gcpemulator.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota 'INSTANCES' exceeded.  Limit: 0.0 in region us-central1."})
		},
		Throttle: func(d time.Duration) func() {
			return w.emulator.Inject(gcpemulator.Match{}, gcpemulator.Fault{Status: 429, Reason: "rateLimitExceeded", RetryAfter: strconv.Itoa(int(d.Seconds()))})
		},
		Deny: func() func() { return w.emulator.Deny("authError") },
	}
}

// codeOf is how Compute Engine says it.
func codeOf(class error) string {
	switch class {
	case provider.ErrQuotaExceeded:
		return "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
	case provider.ErrPermanent:
		return "INVALID_FIELD_VALUE"
	}
	return "INTERNAL_ERROR"
}

func (w *world) leftovers(context.Context) (left []string, err error) {
	for _, l := range w.emulator.Leftovers() {
		left = append(left, fmt.Sprint(l))
	}
	return left, nil
}

func (w *world) place(id string) func() bool {
	number := w.emulator.Place(id, map[string]string{"team": "somebody-elses"})
	return func() bool {
		for _, l := range w.emulator.Leftovers() {
			if l.ID == id {
				return l.Number == number && !l.Deleting
			}
		}
		return false
	}
}

func (w *world) breakScope(id string) func() {
	zone := strings.Split(id, "/")[3]
	w.emulator.SetUnreachable("project-a", zone, gcpemulator.ScopeFails)
	return func() { w.emulator.SetUnreachable("project-a", zone, gcpemulator.Reachable) }
}
