package rules

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestTheComponentScrapesTheOperator builds the default installation with the component: the PodMonitor selects the Pods of
// the Deployment and asks for a port that they have, all rules are there, and everything is in the operator's namespace.
func TestTheComponentScrapesTheOperator(t *testing.T) {
	t.Parallel()
	built := build(t)
	deployment, monitor := decode[appsv1.Deployment](t, built["Deployment"][0]), decode[podMonitor](t, built["PodMonitor"][0])

	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	must(t, err)
	if pods := deployment.Spec.Template.Labels; selector.Empty() || !selector.Matches(labels.Set(pods)) {
		t.Errorf("%s does not select Pods with %v", selector, pods)
	}
	var ports []string
	for _, p := range deployment.Spec.Template.Spec.Containers[0].Ports {
		ports = append(ports, p.Name)
	}
	if e := monitor.Spec.Endpoints; len(e) != 1 || !slices.Contains(ports, e[0].Port) || e[0].Path != "/metrics" || e[0].Scheme != "https" {
		t.Errorf("endpoints %+v, the Pods have %v", e, ports)
	}
	if monitor.Namespace != deployment.Namespace {
		t.Errorf("the PodMonitor is in %s, the Pods in %s", monitor.Namespace, deployment.Namespace)
	}
	secret := decode[corev1.Secret](t, built["Secret"][0])
	binding := decode[rbacv1.ClusterRoleBinding](t, built["ClusterRoleBinding"][slices.IndexFunc(built["ClusterRoleBinding"], func(u *unstructured.Unstructured) bool {
		return u.GetName() == secret.Name
	})])
	roles := slices.ContainsFunc(built["ClusterRole"], func(u *unstructured.Unstructured) bool { return u.GetName() == binding.RoleRef.Name })
	if c := monitor.Spec.Endpoints[0].Authorization.Credentials; c.Name != secret.Name || c.Key != "token" || secret.Type != corev1.SecretTypeServiceAccountToken ||
		secret.Annotations[corev1.ServiceAccountNameKey] != binding.Subjects[0].Name || secret.Namespace != monitor.Namespace || !roles {
		t.Errorf("the token %+v is in %s, of %v, for the role %v", c, secret.Name, secret.Annotations, binding.RoleRef)
	}
	if got, want := len(built["PrometheusRule"]), len(load(t)); got != want {
		t.Errorf("%d PrometheusRules are built, of %d", got, want)
	}
}

// podMonitor is what the test reads of that kind.
type podMonitor struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string `json:"port"`
			Path          string `json:"path"`
			Scheme        string `json:"scheme"`
			Authorization struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// build returns what an overlay of config/default with the component holds, by kind.
func build(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	// kustomize takes relative paths alone, and follows no link to a temporary folder.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	top, err := filepath.Abs(root)
	must(t, err)
	up, err := filepath.Rel(dir, top)
	must(t, err)
	overlay := "resources: [" + up + "/config/default]\ncomponents: [" + up + "/config/components/monitoring]\n"
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(overlay), 0o600))

	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", dir)
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build: %v\n%s", err, said.String())
	}
	kinds := map[string][]*unstructured.Unstructured{}
	for docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096); ; {
		u := &unstructured.Unstructured{}
		if err := docs.Decode(u); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds[u.GetKind()] = append(kinds[u.GetKind()], u)
	}
	if len(kinds["Deployment"]) != 1 || len(kinds["PodMonitor"]) != 1 {
		t.Fatal("built: ", strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	return kinds
}

func decode[T any](t *testing.T, u *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out))
	return out
}
