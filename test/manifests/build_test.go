package manifests

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// kustomizations are all folders of config that can be built; components are the others, which come with them.
func kustomizations(t *testing.T) (dirs, components []string) {
	t.Helper()
	base := filepath.Join(root, "config")
	must(t, filepath.WalkDir(base, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) != "kustomization.yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		must(t, err)
		dir, err := filepath.Rel(base, filepath.Dir(path))
		must(t, err)
		if strings.Contains(string(data), "\nkind: Component\n") {
			components = append(components, dir)
		} else {
			dirs = append(dirs, dir)
		}
		return nil
	}))
	return dirs, components
}

func TestEveryKustomizationAppliesWithoutAWarning(t *testing.T) {
	var heard warnings
	cfg := *config
	cfg.WarningHandlerWithContext = nil
	cfg.WarningHandler = &heard
	c := newClient(t, &cfg)
	for _, ns := range []string{system, podsOnly} {
		must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})))
	}
	dirs, _ := kustomizations(t)
	for _, want := range []string{"crd", "default", "manager", "rbac", "samples/overlay", "samples/overlay-gcp", "samples/overlay-kvm", "samples/overlay-one-namespace"} {
		if !slices.Contains(dirs, want) {
			t.Errorf("no kustomization %s in %v", want, dirs)
		}
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			kustomize(t, dir).apply(t, c, client.DryRunAll)
		})
	}
	if len(heard) > 0 {
		t.Errorf("warnings: %q", []string(heard))
	}
}

// warnings are what the API server has to say beside its answers.
type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

func TestEveryComponentIsInASample(t *testing.T) {
	dirs, components := kustomizations(t)
	var samples strings.Builder
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(root, "config", dir, "kustomization.yaml"))
		must(t, err)
		samples.Write(data)
	}
	if len(components) != 10 {
		t.Errorf("components: %v", components)
	}
	for _, c := range components {
		if !strings.Contains(samples.String(), "/"+c+"\n") {
			t.Errorf("nothing builds with %s", c)
		}
	}
}

// TestTheSamplesFitTogether: the operator reads the configuration of each sample, the Secret has the key that the
// Deployment asks for, and the token is one that somebody still has to think of.
func TestTheSamplesFitTogether(t *testing.T) {
	for _, dir := range []string{"samples/overlay", "samples/overlay-gcp", "samples/overlay-kvm", "samples/overlay-one-namespace"} {
		t.Run(dir, func(t *testing.T) {
			o := kustomize(t, dir)
			entries, err := registry.Parse([]byte(find[corev1.ConfigMap](t, o, "ConfigMap", "egress-proxies-providers-").Data["providers.yaml"]), []string{gcp.Type, kubernetes.Type, kvm.Type, local.Type})
			if err != nil || len(entries) != 1 {
				t.Errorf("%d entries, %v", len(entries), err)
			}
			token := find[corev1.Secret](t, o, "Secret", "egress-proxies-discovery-")
			for _, e := range o.container(t).Env {
				if e.Name == "DISCOVERY_TOKEN" && (e.ValueFrom.SecretKeyRef.Name != token.Name || token.Data[e.ValueFrom.SecretKeyRef.Key] == nil) {
					t.Errorf("the container asks for %+v, the Secret is %s: %v", e.ValueFrom.SecretKeyRef, token.Name, token.Data)
				}
			}
			if len(token.Data["token"]) > 0 {
				t.Error("the sample comes with a token that everybody can read")
			}
		})
	}
}
