package fleet_test

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

var config *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	controlplane.Main(m, func(cfg *rest.Config) { config = cfg })
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }

// managed returns the snapshot of a Managed Proxy whose instance runs, unless change says otherwise.
func managed(n string, change ...func(*fleet.Proxy)) *fleet.Proxy {
	p := &fleet.Proxy{
		Key: name(n), UID: "uid-" + n, Mode: v1alpha1.ModeManaged, Provider: "cloud", ProviderID: "id-" + n, Attempt: 1,
		Endpoint: fleet.Endpoint{Scheme: "http", Host: n + ".test", Port: 3128}, Provisioned: true, ObservedAt: epoch,
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func at(host string, observed time.Time) func(*fleet.Proxy) {
	return func(p *fleet.Proxy) { p.Endpoint.Host, p.ObservedAt = host, observed }
}

func withRevision(r string) func(*fleet.Proxy) {
	return func(p *fleet.Proxy) { p.Credentials = &provider.Credentials{Username: "u", Password: "p", Revision: r} }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
