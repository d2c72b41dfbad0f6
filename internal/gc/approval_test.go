package gc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/reference"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/gc"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// isHealth reports whether the ProviderHealth of an entry is read.
func isHealth(obj client.Object) bool {
	return obj.GetObjectKind().GroupVersionKind() == v1alpha1.GroupVersion().WithKind("ProviderHealth")
}

// health makes the ProviderHealth of the provider "cloud". It goes by the name of the rig's namespace, since all rigs share one
// API server.
func (x *rig) health() *v1alpha1.ProviderHealth {
	x.t.Helper()
	h := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: x.ns}}
	must(x.t, x.client.Create(x.t.Context(), h))
	x.live.get = func(ctx context.Context, key client.ObjectKey, obj client.Object) error {
		if isHealth(obj) && key == (types.NamespacedName{Name: cloud}) {
			key.Name = x.ns
		}
		return x.live.Reader.Get(ctx, key, obj)
	}
	return h
}

// approve sets the annotation.
func (x *rig) approve(value string) {
	x.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: %q}}}`, "crawl.example.com/gc-approve", value)
	h := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: x.ns}}
	must(x.t, x.client.Patch(x.t.Context(), h, client.RawPatch(types.MergePatchType, patch)))
}

func TestAnAnnotationReleasesExactlyTheSet(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.health()
	ids := x.crowd(4)
	first := x.twice()
	if len(first.Held) != 4 {
		t.Fatalf("report: %+v", first)
	}
	x.approve("0123456789abcdef")
	if r := x.sweep(); len(r.Held) != 4 {
		t.Errorf("with another set approved: %+v", r)
	}
	late := x.place("zone-a", x.dead("late"))
	x.twice()
	x.approve(first.Digest)
	if r := x.sweep(); len(r.Held) != 5 || r.Digest == first.Digest {
		t.Errorf("with a part of the set approved: %+v", r)
	}
	x.there(append(ids, late)...)
	x.approve(x.sweep().Digest)
	if r := x.sweep(); len(r.Deleted) != 5 {
		t.Errorf("with the set approved: %+v", r)
	}
	x.there()

	// What is approved once is approved for those alone.
	more := x.crowd(4)
	if r := x.twice(); len(r.Held) != 4 {
		t.Errorf("with the annotation of before: %+v", r)
	}
	x.there(more...)
}

func TestAnAnnotationCountsInADryRunToo(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{}, func(o *gc.Options) { o.DryRun = true })
	x.health()
	ids := x.crowd(3)
	x.approve(x.twice().Digest)
	if r := x.sweep(); len(r.Spared) != 3 || len(r.Held) != 0 {
		t.Errorf("report: %+v", r)
	}
	x.there(ids...)
}

func TestAnUselessApprovalIsSaidOnce(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	x.health()
	x.crowd(3)
	sum := x.twice().Digest
	for _, tc := range []struct{ value, says string }{
		{"yes", `is not a digest`},
		{"", `is not a digest`},
		{strings.ToUpper(sum), `is not a digest`},
		{sum + " ", `is not a digest`},
		{sum[:15], `is not a digest`},
		{strings.Repeat(sum, 1000), `is not a digest`},
		{"0123456789abcdef", "is of another set"},
	} {
		x.approve(tc.value)
		before := len(x.logs.matching(tc.says))
		for range 3 {
			if r := x.sweep(); len(r.Held) != 3 {
				t.Fatalf("%.40q: %+v", tc.value, r)
			}
		}
		if n := len(x.logs.matching(tc.says)) - before; n != 1 {
			t.Errorf("%.40q is complained of %d times, want once", tc.value, n)
		}
	}
	for _, line := range x.logs.matching("is not a digest") {
		if len(line) > 1024 || !strings.Contains(line, `"provider"=`) {
			t.Errorf("%d bytes: %.200s", len(line), line)
		}
	}
	// Said again when it comes again.
	x.approve("yes")
	x.sweep()
	if n := len(x.logs.matching("is not a digest", "yes")); n != 2 {
		t.Errorf("it is complained of %d times, want twice", n)
	}
}

func TestAnApprovalThatCannotBeReadApprovesNothing(t *testing.T) {
	t.Parallel()
	gone := apierrors.NewNotFound(schema.GroupResource{Group: v1alpha1.Group, Resource: "providerhealths"}, cloud)
	for name, tc := range map[string]struct {
		err  error
		said int
	}{
		"no object": {gone, 0}, "an API server that is away": {errors.New("the API server is away"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := newRig(t, providertest.BackendOptions{})
			x.live.get = func(ctx context.Context, key client.ObjectKey, obj client.Object) error {
				if isHealth(obj) {
					return tc.err
				}
				return x.live.Reader.Get(ctx, key, obj)
			}
			ids := x.crowd(3)
			for range 3 {
				if r := x.twice(); len(r.Held) != 3 {
					t.Errorf("report: %+v", r)
				}
			}
			x.there(ids...)
			if n := len(x.logs.matching("nothing is approved")); n != tc.said {
				t.Errorf("it is said %d times, want %d", n, tc.said)
			}
		})
	}
}

func TestTheEventIsAboutTheObjectThatIsThere(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	h := x.health()
	x.crowd(3)
	sum := x.twice().Digest
	if len(x.events.about) != 1 {
		t.Fatalf("events: %q", x.events.lines)
	}
	ref, err := reference.GetReference(runtime.NewScheme(), x.events.about[0])
	must(t, err)
	if ref.Kind != "ProviderHealth" || ref.Name != cloud || ref.UID != h.UID || ref.ResourceVersion != "" || ref.Namespace != "" {
		t.Errorf("the Event is about %+v", ref)
	}
	if line := x.events.lines[0]; !strings.Contains(line, "crawl.example.com/gc-approve="+sum) || len(line) > 1024 {
		t.Errorf("the Event says %q", line)
	}
}

// Nobody is asked where nothing is held.
func TestApprovalsAreReadOnlyWhenTheBreakerHolds(t *testing.T) {
	x := newRig(t, providertest.BackendOptions{})
	asked := 0
	x.live.get = func(ctx context.Context, key client.ObjectKey, obj client.Object) error {
		if isHealth(obj) {
			asked++
		}
		return x.live.Reader.Get(ctx, key, obj)
	}
	x.crowd(2)
	x.twice()
	x.there()
	if asked != 0 {
		t.Errorf("it is read %d times", asked)
	}
}
