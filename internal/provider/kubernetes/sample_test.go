package kubernetes_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestSample: the API server takes the sample's objects, and the operator the entry in its comment.
func TestSample(t *testing.T) {
	w := newT(t)
	data, err := os.ReadFile("../../../config/samples/proxy_kubernetes.yaml")
	must(t0(t), err)
	kube, err := client.New(cluster, client.Options{})
	must(t0(t), err)
	objects := 0
	for docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(data)), 4096); ; objects++ {
		u := &unstructured.Unstructured{}
		if err := docs.Decode(u); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		u.SetNamespace(w.namespace)
		if err := kube.Create(t.Context(), u, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", u.GetKind(), err)
		}
	}
	if objects != 3 {
		t.Errorf("%d objects", objects)
	}

	var entry strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#   ") {
			entry.WriteString(strings.TrimPrefix(line, "#   "))
		}
	}
	if _, err := registry.Parse([]byte(entry.String()), []string{kubernetes.Type}); err != nil {
		t.Errorf("the entry in the comment: %v", err)
	}
}
