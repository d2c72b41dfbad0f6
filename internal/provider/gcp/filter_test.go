package gcp_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// unfiltered is a provider whose API takes no notice of filters and shows everything.
func (w *world) unfiltered(t *testing.T) *gcp.Provider {
	t.Helper()
	front := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		q.Del("filter")
		r.URL.RawQuery = q.Encode()
		w.emulator.ServeHTTP(rw, r)
	}))
	p, err := w.open(entry, owner, "project: project-a\nanonymous: true\nendpoint: "+front+"\n"+w.extra)
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// A filter spares what would be thrown away. Whose a thing is, and what an operation is about, is not left to it.
func TestNothingDependsOnFilters(t *testing.T) {
	w := newT(t, gcpemulator.Options{Delays: gcpemulator.Delays{Delete: 5 * time.Second}})
	w.extra = "provisioning: spot\n"
	p := w.unfiltered(t)
	w.foreign(3)
	other := owner
	other.Installation = "another"
	w.create(w.providerOf(entry, other))
	// Operations of others: one that failed, one that runs, a removal, a preemption.
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), late(gcpemulator.OperationError{Code: "QUOTA_EXCEEDED", Message: "q"}))
	w.create(p)
	preempted, _ := w.create(p)
	w.emulator.Preempt(preempted.ID)
	removed, _ := w.create(p)
	must(w.t, p.Delete(t.Context(), removed))

	ref, req := w.create(p)
	never := w.ref(w.request(), 1)
	w.expect(t, "what never was", p, never, "Provisioning")
	shown, _ := w.list(p)
	slices.Sort(shown)
	if !slices.Equal(shown, []string{"Deleting " + removed.ID, "Running " + ref.ID, "Stopped " + preempted.ID}) {
		t.Errorf("listed is %q", shown)
	}
	w.emulator.Stop(ref.ID)
	if inst := w.get(p, ref); inst.State != provider.StateStopped || inst.Message != "the VM is terminated" {
		t.Errorf("what was stopped by hand is %+v", inst)
	}
	must(w.t, p.Delete(t.Context(), ref))
	w.expect(t, "although another was removed before", p, ref, "Deleting")
	w.advance(10 * time.Second)
	w.expect(t, "in the end", p, ref, "not_found")
	next := w.ref(req, 2)
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), late(gcpemulator.OperationError{Code: "INTERNAL_ERROR", Message: "i"}))
	must(w.t, p.Create(t.Context(), req, next))
	w.expect(t, "the next attempt's own failure", p, next, "Failed transient")
	w.expect(t, "and not that of the one before", p, ref, "not_found")
}
