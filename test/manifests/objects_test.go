package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const root = "../.."

// objects are what a kustomization builds, in the order in which they are applied.
type objects []*unstructured.Unstructured

func kustomize(t *testing.T, dir string) objects {
	t.Helper()
	return build(t, filepath.Join("config", dir))
}

// kustomizeWith builds the base with components, as an overlay of somebody's own does.
func kustomizeWith(t *testing.T, components ...string) objects {
	t.Helper()
	dir := t.TempDir()
	config, err := filepath.Abs(filepath.Join(root, "config"))
	must(t, err)
	config, err = filepath.Rel(dir, config)
	must(t, err)
	text := fmt.Sprintf("resources: [%s/default]\ncomponents:\n", config)
	for _, c := range components {
		text += fmt.Sprintf("- %s/%s\n", config, c)
	}
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	return build(t, dir)
}

func build(t *testing.T, dir string) objects {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", dir)
	cmd.Dir = root
	var said bytes.Buffer
	cmd.Stderr = &said
	built, err := cmd.Output()
	if err != nil {
		t.Fatalf("kustomize build %s: %v\n%s", dir, err, said.String())
	}
	return decode(t, string(built))
}

func decode(t *testing.T, text string) (out objects) {
	t.Helper()
	for docs := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		u := &unstructured.Unstructured{}
		if err := docs.Decode(u); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if len(u.Object) > 0 {
			out = append(out, u)
		}
	}
}

// apply applies them as kubectl does, for real or in a dry run.
func (o objects) apply(t *testing.T, c client.Client, opts ...client.ApplyOption) {
	t.Helper()
	opts = append(opts, client.FieldOwner("kubectl"), client.ForceOwnership)
	for _, u := range o {
		if err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u.DeepCopy()), opts...); err != nil {
			t.Errorf("%s %s: %v", u.GetKind(), u.GetName(), err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// install applies a kustomization and takes its rights away when the test ends.
func install(t *testing.T, c client.Client, dir string) objects {
	t.Helper()
	o := kustomize(t, dir)
	o.install(t, c)
	return o
}

func (o objects) install(t *testing.T, c client.Client) {
	t.Helper()
	o.apply(t, c)
	t.Cleanup(func() {
		for _, u := range o {
			if u.GroupVersionKind().Group == "rbac.authorization.k8s.io" {
				if err := c.Delete(context.WithoutCancel(t.Context()), u.DeepCopy()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// find decodes the one object of a kind whose name begins so: names can end in a hash of what is in them.
func find[T any](t *testing.T, o objects, kind, prefix string) *T {
	t.Helper()
	var found *T
	for _, u := range o {
		if u.GetKind() != kind || !strings.HasPrefix(u.GetName(), prefix) {
			continue
		}
		if found != nil {
			t.Fatalf("more than one %s %s", kind, prefix)
		}
		found = new(T)
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, found, true))
	}
	if found == nil {
		t.Fatalf("no %s %s", kind, prefix)
	}
	return found
}

// deployment is the operator's.
func (o objects) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return find[appsv1.Deployment](t, o, "Deployment", name)
}

// container is the operator's.
func (o objects) container(t *testing.T) *corev1.Container {
	t.Helper()
	all := o.deployment(t).Spec.Template.Spec.Containers
	if len(all) != 1 {
		t.Fatalf("%d containers", len(all))
	}
	return &all[0]
}

// pod is one that the Deployment would make.
func (o objects) pod(t *testing.T, podName string) *corev1.Pod {
	t.Helper()
	d := o.deployment(t)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: podName, Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
	}
}
