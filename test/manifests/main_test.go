package manifests

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/hack/controlplane/assets"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

const (
	// system is the operator's namespace, podsOnly that of the component for one namespace.
	system   = "egress-proxies-system"
	podsOnly = "egress-proxies-pods"
	// name is that of the Deployment, the service account and the roles.
	name = "egress-proxies-operator"
)

// config leads to a real API server, as an administrator.
var config *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "audit-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	env, err := controlplane.New(context.Background())
	if err == nil {
		err = useKubectl()
	}
	if err == nil {
		err = audit(env, dir)
	}
	if err == nil {
		config, err = env.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the control plane:", err)
		return 1
	}
	config.QPS, config.Burst = 1000, 2000
	code := m.Run()
	if err := env.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
		return 1
	}
	return code
}

// useKubectl has commands find the kubectl of the control plane's own version.
func useKubectl() error {
	dir, err := assets.EnsureKubectl(context.Background(), os.Stderr)
	if err != nil {
		return err
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// until waits for a condition of the cluster or a process.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, 40*time.Second, true, func(context.Context) (bool, error) {
		return done(), nil
	})
	if err != nil {
		t.Fatalf("not within 40 s: %s", what)
	}
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	return scheme
}

func newClient(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: newScheme(t)})
	must(t, err)
	return c
}
