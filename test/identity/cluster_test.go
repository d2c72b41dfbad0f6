package identity

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// cluster is one API server.
type cluster struct {
	t   *testing.T
	w   *world
	api client.WithWatch
}

func (w *world) cluster() *cluster {
	w.t.Helper()
	return &cluster{t: w.t, w: w, api: newAPI(w.t)}
}

// proxy stores a Managed Proxy.
func (c *cluster) proxy(namespace, name string, change ...func(*v1alpha1.Proxy)) types.NamespacedName {
	c.t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: c.w.uid(), Generation: 1},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: entry},
	}
	for _, f := range change {
		f(p)
	}
	must(c.t, c.api.Create(c.t.Context(), p))
	return client.ObjectKeyFromObject(p)
}

func withUID(uid types.UID) func(*v1alpha1.Proxy) { return func(p *v1alpha1.Proxy) { p.UID = uid } }

func inZone(zone string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) { p.Spec.Placement = &v1alpha1.Placement{Zone: zone} }
}

// toPort makes the instance differ from what is wanted.
func toPort(port int32) func(*v1alpha1.Proxy) { return func(p *v1alpha1.Proxy) { p.Spec.Port = &port } }

// ask asks for a new instance.
func ask(value string) func(*v1alpha1.Proxy) {
	return func(p *v1alpha1.Proxy) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationReplace, value)
	}
}

// get returns the stored object, nil when it is gone.
func (c *cluster) get(key types.NamespacedName) *v1alpha1.Proxy {
	c.t.Helper()
	p := &v1alpha1.Proxy{}
	err := c.api.Get(c.t.Context(), key, p)
	must(c.t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return p
}

// edit changes spec and metadata as a user does.
func (c *cluster) edit(key types.NamespacedName, changes ...func(*v1alpha1.Proxy)) {
	c.t.Helper()
	p := c.get(key)
	for _, change := range changes {
		change(p)
	}
	p.Generation++
	must(c.t, c.api.Update(c.t.Context(), p))
}

// setStatus replaces the whole status, as kubectl can.
func (c *cluster) setStatus(key types.NamespacedName, status v1alpha1.ProxyStatus) {
	c.t.Helper()
	p := c.get(key)
	p.Status = *status.DeepCopy()
	must(c.t, c.api.Status().Update(c.t.Context(), p))
}

func (c *cluster) delete(keys ...types.NamespacedName) {
	c.t.Helper()
	for _, key := range keys {
		must(c.t, c.api.Delete(c.t.Context(), c.get(key)))
	}
}

// lose deletes the object without anybody looking after its instance.
func (c *cluster) lose(key types.NamespacedName) {
	c.t.Helper()
	c.edit(key, func(p *v1alpha1.Proxy) { p.Finalizers = nil })
	c.delete(key)
}

// gone reports whether all of the objects are.
func (c *cluster) gone(keys ...types.NamespacedName) bool {
	for _, key := range keys {
		if c.get(key) != nil {
			return false
		}
	}
	return true
}

func (c *cluster) uid(key types.NamespacedName) types.UID {
	c.t.Helper()
	return c.get(key).UID
}

// planned returns the ID that the Proxy's instance has in a zone.
func (c *cluster) planned(key types.NamespacedName, zone string) string {
	c.t.Helper()
	return "zones/" + zone + "/instances/" + provider.NameFromUID(string(c.uid(key)))
}

// conflicts reports whether the Proxy says that what it needs is somebody else's.
func (c *cluster) conflicts(key types.NamespacedName) bool {
	p := c.get(key)
	return p != nil && reason(p) == v1alpha1.ReasonConflict && p.Status.Phase == v1alpha1.PhaseFailed && p.Status.IP == ""
}

func reason(p *v1alpha1.Proxy) string { return provisioned(p).Reason }

func message(p *v1alpha1.Proxy) string { return provisioned(p).Message }

func provisioned(p *v1alpha1.Proxy) (c metav1.Condition) {
	if found := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionProvisioned); found != nil {
		c = *found
	}
	return c
}
