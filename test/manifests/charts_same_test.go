package manifests

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// ways are the same installation, said to kustomize and to Helm.
var ways = []struct {
	name       string
	components []string
	values     string
}{
	{"base", nil, ""},
	{"kubernetes", []string{"components/provider-kubernetes"}, "providers: {kubernetes: {enabled: true}}"},
	{
		"kubernetes in one namespace", []string{"components/provider-kubernetes-one-namespace"},
		"providers: {kubernetes: {enabled: true, namespaces: [" + podsOnly + "], createNamespaces: true}}",
	},
	{"kvm", []string{"components/provider-kvm"}, "providers: {kvm: {enabled: true}}"},
	{"gcp", []string{"components/provider-gcp"}, "providers: {gcp: {enabled: true}}"},
	{"TLS", []string{"components/discovery-tls"}, "discovery: {tls: {existingSecret: egress-proxies-discovery-tls}}"},
	{"named tokens", []string{"components/named-tokens"}, "discovery: {namedTokens: {existingSecret: egress-proxies-tokens}}"},
	{"policy", []string{"components/network-policy"}, "networkPolicy: {enabled: true}"},
	{"two replicas", []string{"components/high-availability"}, "replicas: 2\npodDisruptionBudget: {enabled: true}"},
	{
		"monitoring", []string{"components/monitoring", "monitoring/dashboard"},
		"monitoring: {podMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}",
	},
	{"all", all, `
replicas: 2
providers:
  kubernetes: {enabled: true}
  kvm: {enabled: true}
  gcp: {enabled: true}
discovery:
  tls: {existingSecret: egress-proxies-discovery-tls}
  namedTokens: {existingSecret: egress-proxies-tokens}
networkPolicy: {enabled: true}
podDisruptionBudget: {enabled: true}
`},
}

// all are the components that go together and need no other operator's kinds.
var all = []string{
	"components/provider-kubernetes", "components/provider-kvm", "components/provider-gcp", "components/discovery-tls",
	"components/named-tokens", "components/network-policy", "components/high-availability",
}

// TestTheChartIsTheKustomization compares object by object what both render; the API server takes it, and its Pod in a
// namespace that enforces the level restricted.
func TestTheChartIsTheKustomization(t *testing.T) {
	c := newClient(t, config)
	install(t, c, "default") // for the namespace
	// Its Pods are selected by less, which cannot be changed.
	must(t, c.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}))
	_, components := kustomizations(t)
	for _, way := range ways {
		components = slices.DeleteFunc(components, func(c string) bool { return slices.Contains(way.components, c) })
		t.Run(way.name, func(t *testing.T) {
			byHelm := template(t, way.values)
			want, got := plain(t, kustomizeWith(t, way.components...)), plain(t, byHelm)
			if got["Secret egress-proxies-discovery"] == nil || want["Secret egress-proxies-discovery"] != nil {
				t.Error("the chart alone has to bring a token")
			}
			delete(got, "Secret egress-proxies-discovery")
			if d := diff.Diff(want, got); d != "" {
				t.Errorf("kustomize (-) and Helm (+) differ:\n%s", d)
			}
			byHelm.here().apply(t, c, client.DryRunAll)
			if err := c.Create(t.Context(), byHelm.pod(t, "by-helm"), client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
	if len(components) > 0 {
		t.Errorf("nothing compares %v", components)
	}
}

func TestTheChartOfDefinitionsHasThemAll(t *testing.T) {
	want, got := plain(t, kustomize(t, "crd")), plain(t, decode(t, mustHelm(t, "template", "crds", crdsChart)))
	if d := diff.Diff(want, got); d != "" || len(want) != 2 {
		t.Errorf("%d definitions; kustomize (-) and Helm (+) differ:\n%s", len(want), d)
	}
}

// here are the objects that the API server knows, and whose namespaces exist.
func (o objects) here() (out objects) {
	for _, u := range o {
		if u.GroupVersionKind().Group != "monitoring.coreos.com" && u.GetNamespace() != podsOnly {
			out = append(out, u)
		}
	}
	return out
}

// generated is a name with the hash that kustomize appends.
var generated = regexp.MustCompile(`^(egress-proxies-providers)-[a-z0-9]{10}$`)

// plain are objects by kind and name, without what says by whom they are managed, and without order where it has no meaning.
func plain(t *testing.T, o objects) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for _, u := range o {
		u = u.DeepCopy()
		kind := u.GetKind()
		// The operator's own namespace is there before a release, and the definitions have a chart of their own.
		if kind == "Namespace" && u.GetName() == system || kind == "CustomResourceDefinition" && len(o) > 2 {
			continue
		}
		unmanaged(u.Object)
		labels := u.GetLabels()
		delete(labels, "app.kubernetes.io/name")
		delete(labels, "app.kubernetes.io/part-of")
		if len(labels) == 0 {
			labels = nil
		}
		u.SetLabels(labels)
		simplify(t, u)
		key := kind + " " + u.GetName()
		if out[key] != nil {
			t.Errorf("%s twice", key)
		}
		out[key] = u.Object
	}
	return out
}

// unmanaged takes away what Helm adds, wherever it is, and what is then empty.
func unmanaged(m map[string]any) {
	maps.DeleteFunc(m, func(key string, value any) bool {
		switch v := value.(type) {
		case map[string]any:
			unmanaged(v)
			return (key == "labels" || key == "annotations") && len(v) == 0
		case []any:
			for _, item := range v {
				if inner, ok := item.(map[string]any); ok {
					unmanaged(inner)
				}
			}
		case string:
			return strings.HasPrefix(key, "helm.sh/") || slices.Contains(
				[]string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"}, key)
		}
		return false
	})
}

func simplify(t *testing.T, u *unstructured.Unstructured) {
	t.Helper()
	// Where the sidecar looks for it is for an overlay to say.
	if u.GetName() == "egress-proxies-dashboard" && u.GetNamespace() == "" {
		u.SetNamespace(system)
	}
	u.SetName(generated.ReplaceAllString(u.GetName(), "$1"))
	switch u.GetKind() {
	case "ConfigMap":
		text, found, err := unstructured.NestedString(u.Object, "data", "providers.yaml")
		must(t, err)
		if found {
			var parsed any
			must(t, yaml.Unmarshal([]byte(text), &parsed))
			u.Object["data"] = parsed
		}
	case "Deployment":
		spec := u.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		sorted(spec, "volumes")
		for _, v := range spec["volumes"].([]any) {
			if m, ok := v.(map[string]any)["configMap"].(map[string]any); ok {
				m["name"] = generated.ReplaceAllString(m["name"].(string), "$1")
			}
		}
		container := spec["containers"].([]any)[0].(map[string]any)
		for _, list := range []string{"volumeMounts", "env", "args"} {
			sorted(container, list)
		}
		container["image"] = strings.TrimSuffix(container["image"].(string), ":0.0.0")
	}
}

// sorted orders a list of names or of what has names.
func sorted(in map[string]any, key string) {
	of := func(v any) string {
		if m, ok := v.(map[string]any); ok {
			return m["name"].(string)
		}
		return v.(string)
	}
	slices.SortFunc(in[key].([]any), func(a, b any) int { return cmp.Compare(of(a), of(b)) })
}
