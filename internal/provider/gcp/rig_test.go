package gcp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"
	"google.golang.org/api/option"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func newT(t *testing.T, opts gcpemulator.Options) *world {
	t.Helper()
	return newWorld(providertest.Go(t), opts)
}

func expect(t *testing.T, what string, err, class error, reason string, mentions ...string) {
	t.Helper()
	if err == nil || provider.Class(err) != class || provider.Reason(err) != reason {
		t.Errorf("%s: %v (%s, reason %q), want %v with reason %q", what, err, provider.ClassName(err), provider.Reason(err), class, reason)
		return
	}
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%s: %v, want a mention of %q", what, err, m)
		}
	}
}

// create makes the first attempt of a new request.
func (w *world) create(p provider.Provider, change ...func(*provider.CreateRequest)) (provider.Ref, provider.CreateRequest) {
	w.t.Helper()
	req := w.request()
	for _, f := range change {
		f(&req)
	}
	ref := w.ref(req, 1)
	must(w.t, p.Create(w.t.Context(), req, ref))
	return ref, req
}

// state is what Get says, in short.
func (w *world) state(p provider.Provider, ref provider.Ref) string {
	inst, err := p.Get(w.t.Context(), ref)
	if err != nil {
		return strings.TrimSpace(provider.ClassName(err) + " " + provider.Reason(err))
	}
	s := string(inst.State)
	if inst.Err != nil {
		s += " " + provider.ClassName(inst.Err)
	}
	if inst.Left {
		s += " left"
	}
	return s
}

func (w *world) expect(t *testing.T, when string, p provider.Provider, ref provider.Ref, want string) {
	t.Helper()
	if got := w.state(p, ref); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// get is Get where it must not fail.
func (w *world) get(p provider.Provider, ref provider.Ref) *provider.Instance {
	w.t.Helper()
	inst, err := p.Get(w.t.Context(), ref)
	must(w.t, err)
	return inst
}

// list returns what ListByTag shows, in short.
func (w *world) list(p provider.Provider) (shown []string, unread []string) {
	w.t.Helper()
	l, err := p.ListByTag(w.t.Context())
	must(w.t, err)
	for _, inst := range l.Instances {
		shown = append(shown, string(inst.State)+" "+inst.ID)
	}
	return shown, l.Unread
}

// past is beyond every window.
const past = 3 * time.Minute

// sdk is a client of the test's own.
func (w *world) sdk() *compute.Service {
	w.t.Helper()
	s, err := compute.NewService(w.t.Context(), option.WithEndpoint(w.emulator.URL+"/compute/v1/"), option.WithoutAuthentication())
	must(w.t, err)
	return s
}

// vm is the VM as the API has it, in full.
func (w *world) vm(ref provider.Ref) *compute.Instance {
	w.t.Helper()
	part := strings.Split(ref.ID, "/")
	vm, err := w.sdk().Instances.Get(part[1], part[3], part[5]).Context(w.t.Context()).Do()
	must(w.t, err)
	return vm
}

// operations lists those of a kind, oldest first.
func (w *world) operations(kind string) (all []*compute.Operation) {
	w.t.Helper()
	list, err := w.sdk().ZoneOperations.List("project-a", "us-central1-a").Context(w.t.Context()).Do()
	must(w.t, err)
	for _, o := range list.Items {
		if o.OperationType == kind {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *compute.Operation) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// left names everything that has not been removed, firewall rules aside.
func (w *world) left() (names []string) {
	for _, l := range w.emulator.Leftovers() {
		if !strings.Contains(l.ID, "/firewalls/") {
			names = append(names, l.ID)
		}
	}
	return names
}

// until steps the clock a second at a time until done.
func (w *world) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 600 {
		if done() {
			return
		}
		w.advance(time.Second)
	}
	t.Fatalf("%s: not within ten minutes", what)
}

// marked are the labels of an instance of this installation.
func marked(uid string, attempt int64) map[string]string {
	return map[string]string{
		provider.LabelManaged: "true", provider.LabelUID: uid, provider.LabelInstallation: owner.Installation,
		provider.LabelCluster: owner.Cluster, provider.LabelSpec: "v1-0", provider.LabelAttempt: fmt.Sprint(attempt),
		"proxy-operator-port": "3128",
	}
}
