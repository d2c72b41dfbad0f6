package scene

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// The provider entries: processes on this host, and four of Compute Engine, one per project and one that nothing answers.
const (
	entryHost, entryCloud, entryLost, entryPoor, entryDark = "host", "cloud", "lost", "poor", "dark"
)

// providers is the text of the providers' file. The pool of the entry host has so many slots.
func (s *Scene) providers(slots int, project string) string {
	text := fmt.Sprintf("providers:\n- name: %s\n  type: local\n  local:\n    host: crawler-1\n    stateDir: %s\n    allowDestinations: [127.0.0.0/8]\n    pool:\n", entryHost, s.path("proxies"))
	for i := range slots {
		text += fmt.Sprintf("    - listen: 127.0.83.%d\n", i+1)
	}
	gcp := func(name, project, endpoint string) {
		text += fmt.Sprintf("- name: %s\n  type: gcp\n  gcp:\n    project: %s\n    endpoint: %s\n    anonymous: true\n    firewall: {existingSourceRanges: [10.0.0.0/8]}\n", name, project, endpoint)
	}
	gcp(entryCloud, project, s.cloud.emulator.URL)
	gcp(entryLost, projectLost, s.cloud.emulator.URL)
	gcp(entryPoor, projectPoor, s.cloud.emulator.URL)
	gcp(entryDark, projectUsed+"-dark", "http://"+s.dark)
	return text
}

// Proxies of each kind.
const (
	processes = 8
	vms       = 4
	lost      = 3
	ready     = processes + vms + lost + 1
)

func (s *Scene) objects() (out []*v1alpha1.Proxy) {
	add := func(name string, spec v1alpha1.ProxySpec, path string) *v1alpha1.Proxy {
		spec.HealthCheck = &v1alpha1.HealthCheck{URL: s.origin.url + path, Interval: v1alpha1.NewDuration(time.Second)}
		p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
		out = append(out, p)
		return p
	}
	attributes := func(country string) map[string]v1alpha1.AttributeValue {
		return map[string]v1alpha1.AttributeValue{"country": v1alpha1.AttributeValue(country)}
	}
	process := func(country string, leases int32) v1alpha1.ProxySpec {
		return v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: entryHost, Port: ptr.To(int32(s.cloud.port)), Attributes: attributes(country), MaxConcurrentLeases: ptr.To(leases)}
	}
	vm := func(entry, country string) v1alpha1.ProxySpec {
		spec := process(country, 2)
		spec.Provider = entry
		spec.Placement = &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"}
		return spec
	}
	external := func(host, country string) v1alpha1.ProxySpec {
		return v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: host, Port: int32(s.cloud.port)}, Attributes: attributes(country)}
	}
	for i := range processes {
		country, leases := "de", int32(2)
		switch i {
		case 0:
			country, leases = "li", 1 // one for whom many ask
		case 1:
			country = "at" // one that gets banned
		}
		add(fmt.Sprintf("host-%d", i+1), process(country, leases), "/healthy")
	}
	for i := range vms {
		add(fmt.Sprintf("cloud-%d", i+1), vm(entryCloud, "us"), "/healthy")
	}
	for i := range lost {
		add(fmt.Sprintf("lost-%d", i+1), vm(entryLost, "none"), "/alone")
	}
	add("poor", vm(entryPoor, "none"), "/alone")
	add("dark", vm(entryDark, "none"), "/alone")
	add("bought", external("127.0.84.19", "us"), "/healthy")
	strict := add("refused", external("127.0.84.20", "none"), "/").Spec.HealthCheck
	strict.URL, strict.TLS = s.origin.strict.URL, &v1alpha1.HealthCheckTLS{InsecureSkipVerify: true}
	add("dead", external("127.0.85.1", "fr"), "/alone")
	add("cordoned", external("127.0.84.18", "none"), "/alone").Spec.Cordoned = true
	return out
}

func (s *Scene) createAll(ctx context.Context) error {
	for _, p := range s.objects() {
		if err := s.client.Create(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes every Proxy and waits until none is left. Those that never had an
// instance are let go: the proof of its absence takes longer than this run.
func (s *Scene) deleteAll(ctx context.Context) error {
	for _, name := range []string{"dark", "poor"} {
		if err := s.annotate(ctx, name, v1alpha1.AnnotationSkipCleanup, "true"); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if err := s.client.DeleteAllOf(ctx, &v1alpha1.Proxy{}, client.InNamespace("default")); err != nil {
		return err
	}
	return until(ctx, time.Minute, func(ctx context.Context) error {
		var list v1alpha1.ProxyList
		if err := s.client.List(ctx, &list); err != nil {
			return err
		}
		if n := len(list.Items); n > 0 {
			return fmt.Errorf("%d Proxies are still there, among them %s", n, list.Items[0].Name)
		}
		return nil
	})
}

func (s *Scene) annotate(ctx context.Context, name, key, value string) error {
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	return s.client.Patch(ctx, p, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)))
}

// release deletes a Proxy and leaves its instance to the collector.
func (s *Scene) release(ctx context.Context, name string) error {
	if err := s.annotate(ctx, name, v1alpha1.AnnotationSkipCleanup, "true"); err != nil {
		return err
	}
	return s.client.Delete(ctx, &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
}

func (s *Scene) instanceOf(ctx context.Context, name string) (string, error) {
	var p v1alpha1.Proxy
	err := s.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &p)
	return p.Status.ProviderID, err
}
