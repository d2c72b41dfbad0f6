package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

var (
	cluster    client.Client
	kubeconfig string
)

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	code, err := withCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func withCluster(m *testing.M) (code int, err error) {
	env, err := controlplane.New(context.Background())
	if err != nil {
		return 0, err
	}
	cfg, err := env.Start()
	if err != nil {
		return 0, errors.Join(err, env.Stop())
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	if cluster, err = client.New(cfg, client.Options{}); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "docs-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// dryRun has the API server take a manifest as far as it can without keeping it: unknown members are errors there, too.
func dryRun(t *testing.T, doc map[string]any) error {
	t.Helper()
	u := &unstructured.Unstructured{Object: doc}
	if slices.Contains(foreignGroups, u.GroupVersionKind().Group) {
		return nil
	}
	mapping, err := cluster.RESTMapper().RESTMapping(u.GroupVersionKind().GroupKind(), u.GroupVersionKind().Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == "namespace" {
		u.SetNamespace("default") // the one that is there
	}
	return client.WithFieldValidation(cluster, "Strict").Create(t.Context(), u, client.DryRunAll)
}
