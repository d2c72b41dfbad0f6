package manifests

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

// TestRightsForProviderHealth: what the monitor does, and nothing that it does not.
func TestRightsForProviderHealth(t *testing.T) {
	c := newClient(t, config)
	install(t, c, "default")
	check(t, c, true, everywhere("",
		"get providerhealths.crawl.example.com x", "list providerhealths.crawl.example.com", "create providerhealths.crawl.example.com",
		"delete providerhealths.crawl.example.com x", "update providerhealths.crawl.example.com/status x",
	))
	check(t, c, false, everywhere("",
		"update providerhealths.crawl.example.com x", "patch providerhealths.crawl.example.com x", "deletecollection providerhealths.crawl.example.com",
		"patch providerhealths.crawl.example.com/status x",
	))
}

// healthy can be checked, and always is well.
type healthy struct{ provider.Provider }

func (healthy) Check(context.Context) []provider.TargetStatus {
	return []provider.TargetStatus{{Target: "a", Ready: true, Reason: provider.CheckReachable}}
}

// entries are one entry, until there is none.
type entries struct{ gone chan struct{} }

func (e *entries) All() []registry.Handle {
	select {
	case <-e.gone:
		return nil
	default:
		return []registry.Handle{{Name: "manifested", Type: "fake", Revision: "1", Provider: healthy{}}}
	}
}

func (e *entries) Lookup(string) (registry.Handle, bool) {
	all := e.All()
	if len(all) == 0 {
		return registry.Handle{}, false
	}
	return all[0], true
}

// TestTheMonitorWorksWithItsRights: an object comes and goes by the hand of the operator's service account, with the rights of
// its own role and no others.
func TestTheMonitorWorksWithItsRights(t *testing.T) {
	c := newClient(t, config)
	o := kustomize(t, "rbac")
	role := find[rbacv1.ClusterRole](t, o, "ClusterRole", name)
	role.ObjectMeta = metav1.ObjectMeta{Name: "monitor-alone"}
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), role)))
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "monitor-alone"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "monitor-alone"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "monitor-alone"}},
	})))
	cfg := rest.CopyConfig(config)
	cfg.Impersonate.UserName = "monitor-alone"
	limited := newClient(t, cfg)
	e := &entries{gone: make(chan struct{})}
	m, err := providerhealth.New(providerhealth.Options{
		Providers: e, Live: limited, Client: limited, Clock: clock.RealClock{}, Owner: provider.Owner{Installation: "manifests", Cluster: "here"},
		Interval: time.Second,
	})
	must(t, err)
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(t.Context(), logr.Discard()))
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	defer func() { cancel(); must(t, <-ended) }()
	get := func() (*v1alpha1.ProviderHealth, error) {
		obj := &v1alpha1.ProviderHealth{}
		return obj, c.Get(t.Context(), client.ObjectKey{Name: "manifested"}, obj)
	}
	until(t, "the object is written", func() bool { obj, err := get(); return err == nil && obj.Status.Summary == "1/1" })
	close(e.gone)
	m.Refresh()
	until(t, "the object is deleted", func() bool { _, err := get(); return client.IgnoreNotFound(err) == nil && err != nil })
}
