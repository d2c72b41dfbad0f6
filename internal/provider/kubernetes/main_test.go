//go:build !e2e

package kubernetes_test

import (
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

// cluster is a real API server. Nodes and controllers are missing; see kubelet.
var cluster *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m, func(cfg *rest.Config) { cluster = cfg })
}
