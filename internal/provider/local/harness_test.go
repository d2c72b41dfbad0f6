//go:build linux

package local_test

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// conformance is what the suite wants to happen to coming calls.
type conformance struct {
	loseAnswer bool
	arriveLate time.Duration
	late       func()
	due        time.Time
	deleteHold func(step string)
}

func conformanceEnv(t providertest.T) *providertest.Env { return newWorld(t).environment() }

// environment is what the suite needs to know of the world.
func (w *world) environment() *providertest.Env {
	w.window.CallTimeout = 5 * time.Second // what the provider makes of anything longer
	bad := func(field, value string, change func(*provider.CreateRequest)) providertest.Invalid {
		req := w.request()
		change(&req)
		return providertest.Invalid{Request: req, Field: field, Value: value}
	}
	env := &providertest.Env{
		Provider: func(name string, o provider.Owner) provider.Provider {
			p := w.providerOf(name, o)
			p.OnStep(w.onStep)
			return conforming{p, w}
		},
		Owner:   owner,
		Request: w.request,
		Invalid: []providertest.Invalid{
			bad("placement.zone", "nowhere", func(r *provider.CreateRequest) { r.Placement.Zone = "nowhere" }),
			bad("placement.region", "eu", func(r *provider.CreateRequest) { r.Placement.Region = "eu" }),
			bad("placement.machineType", "large", func(r *provider.CreateRequest) { r.Placement.MachineType = "large" }),
			bad("placement.image", "debian", func(r *provider.CreateRequest) { r.Placement.Image = "debian" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
			bad("name", "proxy-somebody", func(r *provider.CreateRequest) { r.Name = "proxy-somebody" }),
			bad("cloudInit", "", func(r *provider.CreateRequest) { r.CloudInit = "#cloud-config" }),
		},
		ForeignIDs:   []string{"hosts/other-host/processes/" + w.request().Name},
		MalformedIDs: []string{"hosts/" + host + "/processes/", "hosts/" + host + "/processes/proxy-UPPER", "hosts//processes/x"},
		Window:       w.window,
		Wait:         w.wait,
		Leftovers:    func(context.Context) ([]string, error) { return w.leftovers(), nil },
		Many:         8,
		NoCloudInit:  true,

		Advance:    w.advance,
		HoldCreate: w.holdFolder,
		HoldGet:    w.holdFolder,
		HoldDelete: w.holdDelete,
		LoseAnswer: func() { w.loseAnswer = true },
		ArriveLate: func(d time.Duration) { w.arriveLate = d },
		ShowLate: func(d time.Duration) {
			if d != 0 { // the folder shows at once what it has
				w.t.Fatalf("cannot show a creation %s late", d)
			}
		},
		Place:        w.place,
		Stop:         w.kill,
		Vanish:       w.vanish,
		Confuse:      w.confuse,
		BreakScope:   func(string) func() { return w.moveAway() },
		ExhaustQuota: w.fillPool,
		LoseMain: func(id string) {
			w.kill(id)
			must(w.t, errors.Join(os.Remove(w.file(id, ".log")), os.Remove(w.file(id, ".auth"))))
		},
		CredentialRevision: w.acceptedRevision,
	}
	if os.Geteuid() != 0 {
		env.Deny = w.deny
	}
	return env
}

// conforming is the provider as the suite calls it. It gives different credentials different passwords, as revisions
// promise, and does to calls what the suite ordered.
type conforming struct {
	*local.Provider
	w *world
}

func revised(c provider.Credentials) provider.Credentials {
	c.Password += "." + c.Revision
	return c
}

func (c conforming) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	if req.Credentials != nil {
		changed := revised(*req.Credentials)
		req.Credentials = &changed
	}
	switch w := c.w; {
	case w.loseAnswer:
		w.loseAnswer = false
		w.start(job{Do: "create", Reqs: []provider.CreateRequest{req}, Refs: []provider.Ref{ref}, DieAt: "done"}).begin().ended()
		return provider.Wrap(provider.ErrTransient, "create", "hosts", ref.ID, errors.New("the process died after its call"))
	case w.arriveLate > 0:
		w.due, w.late = w.clock.Now().Add(w.arriveLate), func() {
			if err := c.Provider.Create(context.Background(), req, ref); err != nil {
				w.t.Errorf("the late Create = %v", err)
			}
		}
		w.arriveLate = 0
		return provider.Wrap(provider.ErrTransient, "create", "hosts", ref.ID, errors.New("the call is on its way"))
	}
	return c.Provider.Create(ctx, req, ref)
}

func (c conforming) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return c.Provider.UpdateCredentials(ctx, ref, revised(creds))
}

func (w *world) wait(ctx context.Context) error {
	t := time.NewTimer(tick)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.advance(tick)
	if w.late != nil {
		w.advance(100 * time.Millisecond)
		if !w.clock.Now().Before(w.due) {
			w.late()
			w.late = nil
		}
	}
	return nil
}
