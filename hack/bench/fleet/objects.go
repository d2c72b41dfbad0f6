package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

const (
	fleetNamespace = "fleet"
	bareNamespace  = "bare"
)

// object is the i-th Proxy: even ones are Managed, spread over the projects.
func (w *world) object(namespace string, i int) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("proxy-%05d", i)},
		Spec: v1alpha1.ProxySpec{
			Attributes: map[string]v1alpha1.AttributeValue{
				"country": v1alpha1.AttributeValue([]string{"de", "fr", "nl", "us"}[i/2%4]), "tier": v1alpha1.AttributeValue([]string{"a", "b"}[i%2]),
			},
			HealthCheck: &v1alpha1.HealthCheck{URL: w.url, ExpectedStatus: ptr.To[int32](204), Interval: v1alpha1.NewDuration(probeInterval)},
		},
	}
	if i%2 == 1 {
		p.Spec.Mode, p.Spec.Endpoint = v1alpha1.ModeExternal, &v1alpha1.Endpoint{Host: address(externalNet, i/2), Port: w.port}
		return p
	}
	p.Spec.Mode, p.Spec.Provider, p.Spec.Port = v1alpha1.ModeManaged, project(i/2%projects), ptr.To(w.port)
	p.Spec.Placement = &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"}
	return p
}

// create puts the fleet on record.
func (w *world) create(ctx context.Context) error {
	c, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	for _, name := range []string{fleetNamespace, bareNamespace} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := c.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return each(w.n, 32, func(i int) error { return w.client.Create(ctx, w.object(fleetNamespace, i)) })
}

// each calls f for 0 to n-1 in so many goroutines, and returns the first error.
func each(n, workers int, f func(i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, workers)
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}
