package v1alpha1_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

func TestUnknownFields(t *testing.T) {
	ns := newNamespace(t)
	for _, path := range []string{"spec.providr", "spec.healthCheck.intervall", "spec.placement.zon"} {
		t.Run(path, func(t *testing.T) {
			obj := managed(top(path, "x"))
			_, err := create(t, ns, obj, client.FieldValidation(metav1.FieldValidationStrict))
			if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "`+path+`"`) {
				t.Errorf("strict validation: want a refusal that names %s, got: %v", path, err)
			}
			u := mustCreate(t, ns, obj)
			if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...); found {
				t.Errorf("%s was stored", path)
			}
		})
	}
}

func TestDiscovery(t *testing.T) {
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatalf("making a discovery client: %v", err)
	}
	list, err := disco.ServerResourcesForGroupVersion(v1alpha1.GroupVersion().String())
	if err != nil {
		t.Fatalf("discovering the group: %v", err)
	}
	byName := map[string]metav1.APIResource{}
	for _, r := range list.APIResources {
		byName[r.Name] = r
	}
	proxies, ok := byName["proxies"]
	if !ok {
		t.Fatalf("no proxies among %v", list.APIResources)
	}
	if proxies.Kind != "Proxy" || proxies.SingularName != "proxy" || !proxies.Namespaced {
		t.Errorf("proxies are %+v", proxies)
	}
	if !slices.Contains(proxies.ShortNames, "epx") || !slices.Contains(proxies.Categories, "egress") {
		t.Errorf("short names are %v, categories %v", proxies.ShortNames, proxies.Categories)
	}
	if _, ok := byName["proxies/status"]; !ok {
		t.Error("status is no subresource")
	}
}

func TestSelectableFields(t *testing.T) {
	ns := newNamespace(t)
	mustCreate(t, ns, managed())
	mustCreate(t, ns, managed())
	mustCreate(t, ns, managed(set("provider", "gcp")))
	mustCreate(t, ns, external())
	for _, tc := range []struct {
		fields client.MatchingFields
		want   int
	}{
		{fields: client.MatchingFields{"spec.provider": "local"}, want: 2},
		{fields: client.MatchingFields{"spec.provider": "gcp"}, want: 1},
		{fields: client.MatchingFields{"spec.provider": ""}, want: 1},
		{fields: client.MatchingFields{"spec.provider": "none"}, want: 0},
		{fields: client.MatchingFields{"spec.mode": "External"}, want: 1},
		{fields: client.MatchingFields{"spec.mode": "Managed"}, want: 3},
		{fields: client.MatchingFields{"spec.mode": "Managed", "spec.provider": "gcp"}, want: 1},
	} {
		var list v1alpha1.ProxyList
		if err := kube.List(t.Context(), &list, client.InNamespace(ns), tc.fields); err != nil {
			t.Errorf("%v: %v", tc.fields, err)
			continue
		}
		if len(list.Items) != tc.want {
			t.Errorf("%v selects %d Proxies, want %d", tc.fields, len(list.Items), tc.want)
		}
	}
	var list v1alpha1.ProxyList
	if err := kube.List(t.Context(), &list, client.InNamespace(ns), client.MatchingFields{"spec.port": "1"}); err == nil {
		t.Error("spec.port can be selected by")
	}
}

func TestPrintColumns(t *testing.T) {
	ns := newNamespace(t)
	u := mustCreate(t, ns, managed(set("placement.zone", "zone-a")))
	u.Object["status"] = map[string]any{"phase": "Ready", "ip": "192.0.2.1", "latencyMillis": int64(12), "providerID": "hosts/a"}
	if err := kube.Status().Update(t.Context(), u); err != nil {
		t.Fatalf("updating the status: %v", err)
	}

	table := getTable(t, "/apis/"+v1alpha1.GroupVersion().String()+"/namespaces/"+ns+"/proxies")
	if len(table.Rows) != 1 {
		t.Fatalf("the table has %d rows, want 1", len(table.Rows))
	}
	var narrow, wide []string
	cells := map[string]any{}
	for i, c := range table.ColumnDefinitions {
		cells[c.Name] = table.Rows[0].Cells[i]
		wide = append(wide, c.Name)
		if c.Priority == 0 {
			narrow = append(narrow, c.Name)
		}
	}
	if want := []string{"Name", "Phase", "Provider", "IP", "Latency", "Age"}; !slices.Equal(narrow, want) {
		t.Errorf("columns are %v, want %v", narrow, want)
	}
	if want := []string{"Name", "Phase", "Provider", "IP", "Latency", "Age", "Mode", "Zone", "Provider ID"}; !slices.Equal(wide, want) {
		t.Errorf("wide columns are %v, want %v", wide, want)
	}
	for name, want := range map[string]any{
		"Phase": "Ready", "Provider": "local", "IP": "192.0.2.1", "Latency": 12.0, "Mode": "Managed", "Zone": "zone-a", "Provider ID": "hosts/a",
	} {
		if cells[name] != want {
			t.Errorf("column %s shows %v, want %v", name, cells[name], want)
		}
	}
}

// getTable asks for path the way kubectl get does.
func getTable(t *testing.T, path string) metav1.Table {
	t.Helper()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatalf("making an HTTP client: %v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		t.Fatalf("making a request: %v", err)
	}
	req.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	resp, err := httpClient.Do(req)
	if err != nil {
		t.Fatalf("asking for a table: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the table: %v", err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("asking for a table: %s: %s", resp.Status, body)
	}
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatalf("decoding the table: %v", err)
	}
	return table
}
