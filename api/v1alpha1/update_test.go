package v1alpha1_test

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func mergePatch(body string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(body)) }
func jsonPatch(body string) client.Patch  { return client.RawPatch(types.JSONPatchType, []byte(body)) }

// TestUpdates changes a stored Proxy in every way a client can; a rejected change leaves the object as it was.
func TestUpdates(t *testing.T) {
	// replace is an update with a whole manifest in place of the stored one.
	replace := func(obj object) func(*testing.T, *unstructured.Unstructured) error {
		return func(t *testing.T, u *unstructured.Unstructured) error {
			next := unstructuredFrom(t, obj)
			next.SetName(u.GetName())
			next.SetNamespace(u.GetNamespace())
			next.SetResourceVersion(u.GetResourceVersion())
			return kube.Update(t.Context(), next)
		}
	}
	patch := func(p client.Patch) func(*testing.T, *unstructured.Unstructured) error {
		return func(t *testing.T, u *unstructured.Unstructured) error {
			return kube.Patch(t.Context(), u.DeepCopy(), p)
		}
	}
	ns := newNamespace(t)
	for _, tc := range []struct {
		name   string
		reason string
		stored object
		change func(*testing.T, *unstructured.Unstructured) error
		field  string
		want   string
	}{
		{name: "mode to External", reason: "an instance would be left behind", stored: managed(), change: replace(external()),
			field: "spec.mode", want: "mode is immutable"},
		{name: "mode to Managed", reason: "another proxy altogether", stored: external(), change: replace(managed()),
			field: "spec.mode", want: "mode is immutable"},
		{name: "mode dropped from External with the rest swapped", reason: "the default is Managed", stored: external(),
			change: patch(mergePatch(`{"spec":{"mode":null,"endpoint":null,"provider":"local"}}`)), field: "spec.mode", want: "mode is immutable"},
		{name: "mode null on Managed", reason: "the default is Managed", stored: managed(), change: patch(mergePatch(`{"spec":{"mode":null}}`))},
		{name: "mode dropped from Managed", reason: "the default is Managed", stored: managed(set("mode", "Managed")), change: replace(managed())},
		{name: "provider to another", reason: "an instance would be left behind", stored: managed(),
			change: replace(managed(set("provider", "gcp"))), field: "spec.provider", want: `"gcp": provider is immutable`},
		{name: "provider dropped by an update", reason: "unset-then-set would change it", stored: managed(),
			change: replace(managed(unset("provider"))), field: "spec.provider", want: "required when mode is Managed"},
		{name: "provider null by a merge patch", reason: "unset-then-set would change it", stored: managed(),
			change: patch(mergePatch(`{"spec":{"provider":null}}`)), field: "spec.provider", want: "required when mode is Managed"},
		{name: "provider removed by a JSON patch", reason: "unset-then-set would change it", stored: managed(),
			change: patch(jsonPatch(`[{"op":"remove","path":"/spec/provider"}]`)), field: "spec.provider", want: "required when mode is Managed"},
		{name: "provider swapped by a JSON patch", reason: "remove and add in one request", stored: managed(),
			change: patch(jsonPatch(`[{"op":"remove","path":"/spec/provider"},{"op":"add","path":"/spec/provider","value":"gcp"}]`)),
			field:  "spec.provider", want: "provider is immutable"},
		{name: "provider added to External", reason: "set where it was unset", stored: external(),
			change: patch(mergePatch(`{"spec":{"provider":"local"}}`)), field: "spec.provider", want: "forbidden when mode is External"},
		{name: "spec null by a merge patch", reason: "a Proxy without a spec asks for nothing", stored: managed(),
			change: patch(mergePatch(`{"spec":null}`)), field: "spec", want: "Required value"},
		{name: "healthCheck null by a merge patch", reason: "back to the defaults", stored: managed(set("healthCheck.interval", "5s")),
			change: patch(mergePatch(`{"spec":{"healthCheck":null}}`))},
		{name: "interval below the stored timeout", reason: "the rule covers what is stored already",
			stored: managed(set("healthCheck", map[string]any{"interval": "1m", "timeout": "20s"})),
			change: patch(mergePatch(`{"spec":{"healthCheck":{"interval":"10s"}}}`)), field: "spec.healthCheck.timeout", want: "timeout 20s must not be longer than interval 10s"},
		{name: "interval dropped below the stored timeout", reason: "the default interval is 30s",
			stored: managed(set("healthCheck", map[string]any{"interval": "2m", "timeout": "1m"})),
			change: patch(mergePatch(`{"spec":{"healthCheck":{"interval":null}}}`)), field: "spec.healthCheck.timeout", want: "than interval 30s, the default"},
		{name: "endpoint of External", reason: "it moved", stored: external(), change: patch(mergePatch(`{"spec":{"endpoint":{"host":"192.0.2.8"}}}`))},
		{name: "everything mutable of Managed", reason: "drift is repaired by replacement", stored: managed(),
			change: replace(managed(set("placement.zone", "b"), set("cloudInit.inline", "x"), set("port", 8080), set("attributes.a", "b"),
				set("maxConcurrentLeases", 3), set("cordoned", true), set("replaceUnhealthyAfter", "5m"), set("auth.secretRef.name", "s")))},
		{name: "finalizer", reason: "metadata alone", stored: managed(),
			change: patch(mergePatch(`{"metadata":{"finalizers":["` + v1alpha1.FinalizerInstance + `"]}}`))},
		{name: "annotation", reason: "metadata alone", stored: external(),
			change: patch(mergePatch(`{"metadata":{"annotations":{"` + v1alpha1.AnnotationReplace + `":"1"}}}`))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := mustCreate(t, ns, tc.stored)
			key := client.ObjectKeyFromObject(u)
			err := tc.change(t, u)
			p := checkDecodes(t, key)
			if tc.field != "" {
				wantRejected(t, err, tc.field, tc.want, tc.reason)
				if p.ResourceVersion != u.GetResourceVersion() {
					t.Errorf("%s: the rejected change was stored", tc.reason)
				}
			} else if err != nil {
				t.Errorf("%s: want accepted, got: %v", tc.reason, err)
			}
			if len(p.Finalizers) == 0 {
				return
			}
			// Nothing but this test acts on the object, so nothing else would let it go.
			if err := kube.Patch(t.Context(), p, mergePatch(`{"metadata":{"finalizers":null}}`)); err != nil {
				t.Errorf("removing the finalizer: %v", err)
			}
		})
	}
}

func TestMetadataChangesKeepTheGeneration(t *testing.T) {
	u := mustCreate(t, newNamespace(t), managed())
	before := u.GetGeneration()
	if err := kube.Patch(t.Context(), u, mergePatch(`{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"}}}`)); err != nil {
		t.Fatalf("annotating: %v", err)
	}
	if u.GetGeneration() != before {
		t.Errorf("an annotation moved the generation from %d to %d", before, u.GetGeneration())
	}
	if err := kube.Patch(t.Context(), u, mergePatch(`{"spec":{"cordoned":true}}`)); err != nil {
		t.Fatalf("cordoning: %v", err)
	}
	if u.GetGeneration() == before {
		t.Error("a changed spec kept the generation")
	}
}

func TestServerSideApply(t *testing.T) {
	ns := newNamespace(t)
	apply := func(t *testing.T, owner, name string, obj object, opts ...client.ApplyOption) error {
		t.Helper()
		u := unstructuredFrom(t, obj)
		u.SetGenerateName("")
		u.SetName(name)
		u.SetNamespace(ns)
		return kube.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), append(opts, client.FieldOwner(owner))...)
	}
	mustApply := func(t *testing.T, owner, name string, obj object) {
		t.Helper()
		if err := apply(t, owner, name, obj); err != nil {
			t.Fatalf("applying as %s: %v", owner, err)
		}
	}
	get := func(t *testing.T, name string) *v1alpha1.Proxy {
		t.Helper()
		return checkDecodes(t, client.ObjectKey{Namespace: ns, Name: name})
	}
	noProvider := unset("provider")

	t.Run("managers own separate fields", func(t *testing.T) {
		mustApply(t, "gitops", "separate", managed(set("attributes", map[string]any{"region": "eu", "team": "x"})))
		mustApply(t, "tagger", "separate", managed(noProvider, set("attributes.tier", "gold"), set("cordoned", true)))
		mustApply(t, "gitops", "separate", managed(set("attributes.region", "us")))
		p := get(t, "separate")
		if got := p.Spec.AttributeMap(); len(got) != 2 || got["region"] != "us" || got["tier"] != "gold" {
			t.Errorf("attributes are %v, want each manager's own and not the dropped one", got)
		}
		if !p.Spec.Cordoned || p.Spec.Provider != "local" {
			t.Errorf("spec is %+v, want both managers' fields", p.Spec)
		}
	})
	t.Run("the defaulted mode belongs to nobody", func(t *testing.T) {
		mustApply(t, "gitops", "mode", managed())
		mustApply(t, "tagger", "mode", managed(noProvider, set("mode", "Managed")))
		mustApply(t, "tagger", "mode", managed(noProvider, set("cordoned", true)))
		if p := get(t, "mode"); p.Spec.Mode != v1alpha1.ModeManaged {
			t.Errorf("mode is %q", p.Spec.Mode)
		}
	})
	t.Run("dropping provider is rejected", func(t *testing.T) {
		mustApply(t, "gitops", "drop", managed(set("cordoned", true)))
		err := apply(t, "gitops", "drop", managed(noProvider, set("cordoned", true)))
		wantRejected(t, err, "spec.provider", "required when mode is Managed", "its only owner gave it up")
		if p := get(t, "drop"); p.Spec.Provider != "local" {
			t.Errorf("provider is %q", p.Spec.Provider)
		}
	})
	t.Run("another manager's provider conflicts and cannot be forced", func(t *testing.T) {
		mustApply(t, "gitops", "conflict", managed())
		if err := apply(t, "other", "conflict", managed(set("provider", "gcp"))); !apierrors.IsConflict(err) {
			t.Errorf("want a conflict, got: %v", err)
		}
		err := apply(t, "other", "conflict", managed(set("provider", "gcp")), client.ForceOwnership)
		wantRejected(t, err, "spec.provider", "provider is immutable", "force takes ownership, not the rule")
	})
	t.Run("mode cannot be dropped from External", func(t *testing.T) {
		mustApply(t, "gitops", "external", external())
		err := apply(t, "gitops", "external", managed())
		wantRejected(t, err, "spec.mode", "mode is immutable", "the default is Managed")
	})
	t.Run("null and empty health checks", func(t *testing.T) {
		for _, value := range []any{nil, map[string]any{}, map[string]any{"tls": nil}} {
			mustApply(t, "gitops", "health", managed(set("healthCheck", value)))
			if got := get(t, "health").Spec.Probe(); got.Interval != v1alpha1.DefaultProbeInterval {
				t.Errorf("healthCheck %v has interval %s", value, got.Interval)
			}
		}
	})
	t.Run("null elsewhere is refused by name", func(t *testing.T) {
		// Other requests drop such a null; server-side apply keeps it as a value that its manager owns.
		err := apply(t, "gitops", "null", managed(set("healthCheck.interval", nil)))
		wantRejected(t, err, "spec.healthCheck.interval", "must be of type string", "an owned null is not absent")
		err = apply(t, "gitops", "null", managed(set("cloudInit", nil)))
		wantRejected(t, err, "spec.cloudInit", "must be of type object", "an owned null is not absent")
	})
	t.Run("applying the same again writes nothing", func(t *testing.T) {
		mustApply(t, "gitops", "same", managed(set("healthCheck.interval", "60s")))
		before := get(t, "same").ResourceVersion
		mustApply(t, "gitops", "same", managed(set("healthCheck.interval", "60s")))
		if after := get(t, "same").ResourceVersion; after != before {
			t.Error("an unchanged apply was stored")
		}
	})
}
