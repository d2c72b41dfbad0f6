package v1alpha1_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

const definitionName = "proxies." + v1alpha1.Group

// TestStoredViolationsCanBeFinalised stores objects under a definition without rules, brings the rules back, and walks
// each object to its end as the operator would. It changes the definition for all, so it must not run in parallel.
func TestStoredViolationsCanBeFinalised(t *testing.T) {
	many := map[string]any{}
	for i := range 40 {
		many["key-"+strconv.Itoa(i)] = "v"
	}
	hc := func(members map[string]any) edit { return set("healthCheck", members) }
	cases := []struct {
		name string
		obj  object
		// wholeSpec is set where the broken rule compares members of spec: it holds back changes anywhere in spec.
		wholeSpec bool
	}{
		{name: "endpoint host", obj: external(set("endpoint.host", "010.0.0.1"))},
		{name: "endpoint host too long", obj: external(set("endpoint.host", strings.Repeat("a", 300)))},
		{name: "endpoint port", obj: external(set("endpoint.port", 0))},
		{name: "timeout above interval", obj: managed(hc(map[string]any{"interval": "5s", "timeout": "10s"}))},
		{name: "interval out of bounds", obj: managed(hc(map[string]any{"interval": "9999h"}))},
		{name: "interval that CEL cannot read", obj: managed(hc(map[string]any{"interval": "1 week", "timeout": "5s"}))},
		{name: "timeout that CEL cannot read", obj: managed(hc(map[string]any{"timeout": ""}))},
		{name: "interval that overflows", obj: managed(hc(map[string]any{"interval": strings.Repeat("9", 30) + "h", "timeout": "9999999h"}))},
		{name: "interval too long", obj: managed(hc(map[string]any{"interval": strings.Repeat("9999h", 20)}))},
		{name: "replaceUnhealthyAfter that CEL cannot read", obj: managed(set("replaceUnhealthyAfter", "never"))},
		{name: "caBundle not base64", obj: managed(set("healthCheck.tls.caBundle", "-----BEGIN"))},
		{name: "url without scheme", obj: managed(set("healthCheck.url", "example.com"))},
		{name: "url that does not parse", obj: managed(set("healthCheck.url", "http://[::1:99999999999999999999/%zz"))},
		{name: "attribute key", obj: managed(set("attributes", map[string]any{"a b": "v"}))},
		{name: "attribute value", obj: managed(set("attributes.tier", "a b"))},
		{name: "attributes too many", obj: managed(set("attributes", many))},
		{name: "maxConcurrentLeases", obj: managed(set("maxConcurrentLeases", 0))},
		{name: "provider", obj: managed(set("provider", "Bad Name"))},
		{name: "placement", obj: managed(set("placement.zone", "../x"))},
		{name: "Secret name", obj: managed(set("auth.secretRef.name", "NS/x"))},
		{name: "cloudInit both", obj: managed(set("cloudInit", map[string]any{"inline": "x", "secretRef": map[string]any{"name": "a"}}))},
		{name: "mode", obj: managed(set("mode", "Auto"))},
		{name: "External with provider", obj: external(set("provider", "local")), wholeSpec: true},
		{name: "External without endpoint", obj: external(unset("endpoint")), wholeSpec: true},
		{name: "Managed without provider", obj: managed(unset("provider")), wholeSpec: true},
		{name: "Managed with endpoint", obj: managed(set("endpoint", map[string]any{"host": "a", "port": 1})), wholeSpec: true},
	}

	ns := newNamespace(t)
	strict := definition(t)
	t.Cleanup(func() { replaceSchema(context.WithoutCancel(t.Context()), t, strict) })
	loose := strict.DeepCopy()
	for i := range loose.Spec.Versions {
		loosen(loose.Spec.Versions[i].Schema.OpenAPIV3Schema, "spec")
	}
	replaceSchema(t.Context(), t, loose)
	awaitAnswer(t, ns, cases[0].obj, func(err error) bool { return err == nil })

	stored := make([]*unstructured.Unstructured, len(cases))
	for i, tc := range cases {
		u := unstructuredFrom(t, tc.obj)
		u.SetNamespace(ns)
		u.SetFinalizers([]string{v1alpha1.FinalizerInstance})
		if err := kube.Create(t.Context(), u); err != nil {
			t.Fatalf("storing %q: %v", tc.name, err)
		}
		stored[i] = u
	}
	replaceSchema(t.Context(), t, strict)
	awaitAnswer(t, ns, cases[0].obj, apierrors.IsInvalid)

	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := create(t, ns, tc.obj, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Fatalf("the case is no violation: a new object like it gets: %v", err)
			}
			finalise(t, stored[i], tc.wholeSpec)
		})
	}
}

// finalise does what the operator and its users do with a Proxy, up to its end.
func finalise(t *testing.T, u *unstructured.Unstructured, wholeSpec bool) {
	t.Helper()
	status := u.DeepCopy()
	status.Object["status"] = map[string]any{"phase": "Deleting", "conditions": []any{condition("Provisioned", "False")}}
	if err := kube.Status().Update(t.Context(), status); err != nil {
		t.Errorf("updating the status: %v", err)
	}
	if err := kube.Patch(t.Context(), u.DeepCopy(), mergePatch(`{"metadata":{"annotations":{"a":"b"}}}`)); err != nil {
		t.Errorf("annotating: %v", err)
	}
	err := kube.Patch(t.Context(), u.DeepCopy(), mergePatch(`{"spec":{"cordoned":true}}`))
	if wholeSpec && !apierrors.IsInvalid(err) {
		t.Errorf("cordoning: want the broken rule to hold it back, got: %v", err)
	}
	if !wholeSpec && err != nil {
		t.Errorf("cordoning: %v", err)
	}
	if err := kube.Delete(t.Context(), u.DeepCopy()); err != nil {
		t.Fatalf("deleting: %v", err)
	}
	deleting := u.DeepCopy()
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(u), deleting); err != nil || deleting.GetDeletionTimestamp() == nil {
		t.Fatalf("the finalizer did not hold the object (%v)", err)
	}
	deleting.Object["status"] = map[string]any{"phase": "Deleting"}
	if err := kube.Status().Update(t.Context(), deleting); err != nil {
		t.Errorf("updating the status while deleting: %v", err)
	}
	deleting.SetFinalizers(nil)
	if err := kube.Update(t.Context(), deleting); err != nil {
		t.Fatalf("removing the finalizer: %v", err)
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(u), u.DeepCopy()); !apierrors.IsNotFound(err) {
		t.Errorf("want the object gone, got: %v", err)
	}
}

func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: definitionName}, crd); err != nil {
		t.Fatalf("reading the definition: %v", err)
	}
	return crd
}

// replaceSchema puts the versions of crd in place of the installed ones.
func replaceSchema(ctx context.Context, t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := &apiextensionsv1.CustomResourceDefinition{}
		if err := kube.Get(ctx, client.ObjectKey{Name: definitionName}, live); err != nil {
			return err
		}
		live.Spec.Versions = crd.DeepCopy().Spec.Versions
		return kube.Update(ctx, live)
	})
	if err != nil {
		t.Fatalf("updating the definition: %v", err)
	}
}

// awaitAnswer polls until a create of obj is answered as want says.
func awaitAnswer(t *testing.T, ns string, obj object, want func(error) bool) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), settlePoll, settleTimeout, true, func(context.Context) (bool, error) {
		_, last = create(t, ns, obj, client.DryRunAll)
		return want(last), nil
	})
	if err != nil {
		t.Fatalf("the definition did not take effect: %v, last answer: %v", err, last)
	}
}

// loosen strips every rule from the named property of s, and keeps its shape.
func loosen(s *apiextensionsv1.JSONSchemaProps, property string) {
	p := s.Properties[property]
	strip(&p)
	s.Properties[property] = p
}

func strip(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations, s.Pattern, s.Enum, s.Format, s.Required = nil, "", nil, "", nil
	s.Minimum, s.Maximum, s.MinLength, s.MaxLength = nil, nil, nil, nil
	s.MinProperties, s.MaxProperties, s.MinItems, s.MaxItems = nil, nil, nil, nil
	for name := range s.Properties {
		loosen(s, name)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		strip(s.AdditionalProperties.Schema)
	}
}
