package fleet

import (
	"maps"
	"reflect"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// TestCompactLosesNothingButManagedFields of whatever Proxy there may be.
func TestCompactLosesNothingButManagedFields(t *testing.T) {
	f := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3)
	for range 500 {
		var p v1alpha1.Proxy
		f.Fill(&p)
		want := p.DeepCopy()
		want.ManagedFields = nil
		got, err := Compact(&p)
		if err != nil || !equality.Semantic.DeepEqual(got, want) {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}
	if got, err := Compact(pod); err != nil || got != any(pod) || pod.ManagedFields != nil || pod.Name != "a" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Compact("no object"); err != nil || got != "no object" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestCompactKeepsOneCopy of what two Proxies have alike.
func TestCompactKeepsOneCopy(t *testing.T) {
	fresh := func(s string) string { return string([]byte(s)) }
	decoded := func() *v1alpha1.Proxy {
		p := &v1alpha1.Proxy{Spec: v1alpha1.ProxySpec{
			Provider: fresh("cloud"), Attributes: map[string]v1alpha1.AttributeValue{fresh("country"): v1alpha1.AttributeValue(fresh("de"))},
		}}
		p.Status.Conditions = []metav1.Condition{{Type: fresh("Ready"), Message: fresh("probed well")}}
		if _, err := Compact(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	at := func(s string) *byte { return unsafe.StringData(s) }
	a, b := decoded(), decoded()
	if at(a.Spec.Provider) != at(b.Spec.Provider) || at(string(a.Spec.Attributes["country"])) != at(string(b.Spec.Attributes["country"])) ||
		at(a.Status.Conditions[0].Message) != at(b.Status.Conditions[0].Message) {
		t.Error("both have a copy of their own")
	}
	for name := range a.Spec.Attributes {
		for other := range b.Spec.Attributes {
			if at(name) != at(other) {
				t.Error("both have a copy of the attribute's name")
			}
		}
	}
}

// TestAttributesAlikeAreOne map, and others another.
func TestAttributesAlikeAreOne(t *testing.T) {
	var f Feed
	a, b := f.shared(map[string]string{"country": "de", "tier": "1"}), f.shared(map[string]string{"tier": "1", "country": "de"})
	if reflect.ValueOf(a).Pointer() != reflect.ValueOf(b).Pointer() {
		t.Error("two maps for the same attributes")
	}
	for _, other := range []map[string]string{{"country": "de"}, {"country": "de", "tier": "2"}, {}, nil} {
		if got := f.shared(other); !maps.Equal(got, other) {
			t.Errorf("%v for %v", got, other)
		}
	}
}
