package fleet

import (
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// Compact is a cache.TransformFunc that makes what informers keep small: who wrote which field is a third of an object, and nobody
// asks for it; what the Proxies of a fleet have in common is kept once for all of them. Nothing else about an object changes. It
// does not block.
func Compact(in any) (any, error) {
	if object, ok := in.(metav1.Object); ok {
		object.SetManagedFields(nil)
	}
	if p, ok := in.(*v1alpha1.Proxy); ok {
		share(p)
	}
	return in, nil
}

// share exchanges the strings that many Proxies have alike for one copy of each, which goes when nobody has it any more.
func share(p *v1alpha1.Proxy) {
	s := &p.Spec
	one(&p.Namespace)
	for i := range p.Finalizers {
		one(&p.Finalizers[i])
	}
	one(&s.Mode)
	one(&s.Provider)
	if place := s.Placement; place != nil {
		one(&place.Region)
		one(&place.Zone)
		one(&place.MachineType)
		one(&place.Image)
	}
	if c := s.CloudInit; c != nil {
		one(&c.Inline)
	}
	if c := s.HealthCheck; c != nil {
		one(&c.URL)
	}
	if s.Attributes != nil {
		shared := make(map[string]v1alpha1.AttributeValue, len(s.Attributes))
		for name, value := range s.Attributes {
			one(&name)
			one(&value)
			shared[name] = value
		}
		s.Attributes = shared
	}
	one(&p.Status.Phase)
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		one(&c.Type)
		one(&c.Status)
		one(&c.Reason)
		one(&c.Message)
	}
}

func one[T ~string](s *T) {
	if *s != "" {
		*s = unique.Make(*s).Value()
	}
}

var _ cache.TransformFunc = Compact
