package v1alpha1_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// newProviderHealth stores an object without a status.
func newProviderHealth(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	u := unstructuredFrom(t, object{
		"apiVersion": v1alpha1.GroupVersion().String(), "kind": "ProviderHealth", "metadata": map[string]any{"name": "p-" + rand.String(10)},
	})
	if err := kube.Create(t.Context(), u); err != nil {
		t.Fatalf("creating a ProviderHealth: %v", err)
	}
	t.Cleanup(func() { _ = kube.Delete(t.Context(), u) })
	return u
}

// healthStatus is a status with everything in it.
func healthStatus() map[string]any {
	return map[string]any{
		"type": "kvm", "revision": "0123456789abcdef", "checkedTime": "2026-03-01T12:00:00Z", "targetsReady": int64(1), "targetsTotal": int64(2),
		"summary": "1/2", "worstTarget": "b",
		"targets": []any{
			map[string]any{
				"target": "a", "ready": true, "reason": "Reachable", "latencyMillis": int64(12), "lastTransitionTime": "2026-03-01T12:00:00Z",
				"details": map[string]any{"libvirt": "9.0.0"},
			},
			map[string]any{"target": "b", "ready": false, "reason": "Timeout", "message": "no answer", "lastTransitionTime": "2026-03-01T12:00:00Z"},
		},
		"conditions": []any{
			map[string]any{"type": "Ready", "status": "False", "reason": "Timeout", "message": "b", "lastTransitionTime": "2026-03-01T12:00:00Z"},
			map[string]any{"type": "ConfigurationAccepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-03-01T12:00:00Z"},
		},
	}
}

func TestProviderHealthStatus(t *testing.T) {
	target := func(key string, value any) func(map[string]any) {
		return func(s map[string]any) { s["targets"].([]any)[1].(map[string]any)[key] = value }
	}
	top := func(key string, value any) func(map[string]any) { return func(s map[string]any) { s[key] = value } }
	many := func(n int) (out []any) {
		for i := range n {
			out = append(out, map[string]any{"target": fmt.Sprint(i), "ready": true, "reason": "Reachable", "lastTransitionTime": "2026-03-01T12:00:00Z"})
		}
		return out
	}
	facts := func(n, length int) map[string]any {
		out := map[string]any{}
		for i := range n {
			out[fmt.Sprint(i)] = strings.Repeat("x", length)
		}
		return out
	}
	for _, tc := range []struct {
		name, field string
		change      func(map[string]any)
	}{
		{"everything", "", func(map[string]any) {}},
		{"nothing", "", func(s map[string]any) { clear(s) }},
		{"as many targets as there may be", "", top("targets", many(512))},
		{"too many targets", "status.targets", top("targets", many(513))},
		{"one target twice", "status.targets", target("target", "a")},
		{"a target without a name", "status.targets[1].target", target("target", "")},
		{"a long name", "status.targets[1].target", target("target", strings.Repeat("x", 254))},
		{"no reason", "status.targets[1].reason", target("reason", "")},
		{"a long reason", "status.targets[1].reason", target("reason", strings.Repeat("x", 65))},
		{"the longest message", "", target("message", strings.Repeat("ä", 512))},
		{"a longer message", "status.targets[1].message", target("message", strings.Repeat("ä", 513))},
		{"negative latency", "status.targets[1].latencyMillis", target("latencyMillis", int64(-1))},
		{"as many details as there may be", "", target("details", facts(32, 256))},
		{"too many details", "status.targets[1].details", target("details", facts(33, 1))},
		{"a long detail", "status.targets[1].details.0", target("details", facts(1, 257))},
		{"a time that Go cannot read", "status.targets[1].lastTransitionTime", target("lastTransitionTime", "2026-03-01t12:00:00z")},
		{"another", "status.checkedTime", top("checkedTime", "2026-03-01T12:00:00+01:00")},
		{"a negative count", "status.targetsReady", top("targetsReady", int64(-1))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			u := newProviderHealth(t)
			status := healthStatus()
			tc.change(status)
			u.Object["status"] = status
			err := kube.Status().Update(t.Context(), u)
			if tc.field != "" {
				if !apierrors.IsInvalid(err) {
					t.Fatalf("want a refusal of %s, got: %v", tc.field, err)
				}
				if causes := causesOf(t, err); len(causes) != 1 || !strings.HasPrefix(causes[0].Field, tc.field) {
					t.Errorf("want one message about %s: %v", tc.field, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			stored := &v1alpha1.ProviderHealth{}
			if err := kube.Get(t.Context(), client.ObjectKeyFromObject(u), stored); err != nil {
				t.Fatalf("the stored object does not decode: %v", err)
			}
			if err := kube.Status().Update(t.Context(), stored); err != nil {
				t.Errorf("writing the decoded object back: %v", err)
			}
		})
	}
}

func TestProviderHealthDiscovery(t *testing.T) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	list, err := disco.ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, r := range list.APIResources {
		switch r.Name {
		case "providerhealths":
			found++
			if r.Kind != "ProviderHealth" || r.SingularName != "providerhealth" || r.Namespaced || !slices.Contains(r.ShortNames, "eph") || !slices.Contains(r.Categories, "egress") {
				t.Errorf("providerhealths are %+v", r)
			}
		case "providerhealths/status":
			found++
		}
	}
	if found != 2 {
		t.Errorf("resources: %+v", list.APIResources)
	}
}

func TestProviderHealthColumns(t *testing.T) {
	u := newProviderHealth(t)
	u.Object["status"] = healthStatus()
	if err := kube.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	table := getTable(t, "/apis/"+v1alpha1.GroupVersion().String()+"/providerhealths/"+u.GetName())
	var narrow, wide []string
	cells := map[string]any{}
	for i, c := range table.ColumnDefinitions {
		cells[c.Name] = table.Rows[0].Cells[i]
		wide = append(wide, c.Name)
		if c.Priority == 0 {
			narrow = append(narrow, c.Name)
		}
	}
	if want := []string{"Name", "Ready", "Accepted", "Targets", "Reason", "Type", "Age"}; !slices.Equal(narrow, want) {
		t.Errorf("columns are %v, want %v", narrow, want)
	}
	if want := []string{"Checked", "Configuration", "Worst", "Message"}; !slices.Equal(wide[len(narrow):], want) {
		t.Errorf("wide columns are %v, want %v", wide, want)
	}
	for name, want := range map[string]any{
		"Ready": "False", "Targets": "1/2", "Reason": "Timeout", "Type": "kvm", "Accepted": "True", "Worst": "b", "Message": "b",
	} {
		if cells[name] != want {
			t.Errorf("column %s shows %v, want %v", name, cells[name], want)
		}
	}
}
