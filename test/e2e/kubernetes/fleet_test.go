//go:build e2e

package kubernetes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// readyIn bounds the way from an object to a healthy proxy.
	readyIn  = time.Minute
	username = "crawler"
	password = "e2e-password-5d1f"
	secret   = "credentials"
)

// fleet is a namespace with Proxies of one test, under the strictest Pod security.
type fleet struct {
	*cluster
	t         *testing.T
	namespace string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	must(t, shared.client.Create(t.Context(), ns))
	f := &fleet{cluster: shared, t: t, namespace: ns.Name}
	t.Cleanup(f.remove)
	f.credentials(password)
	return f
}

// remove deletes the Proxies first and lets the operator clean up behind them.
func (f *fleet) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.client.DeleteAllOf(ctx, &v1alpha1.Proxy{}, client.InNamespace(f.namespace)); err != nil {
		f.t.Errorf("deleting what the test made: %v", err)
	}
	if err := poll(ctx, time.Minute, func() string {
		list := &v1alpha1.ProxyList{}
		if err := f.client.List(ctx, list, client.InNamespace(f.namespace)); err != nil || len(list.Items) > 0 {
			return fmt.Sprintf("%d Proxies are left: %v", len(list.Items), err)
		}
		return ""
	}); err != nil {
		f.t.Errorf("cleaning up: %v", err)
	}
	if err := f.kube.CoreV1().Namespaces().Delete(ctx, f.namespace, metav1.DeleteOptions{}); err != nil {
		f.t.Errorf("cleaning up: %v", err)
	}
}

// credentials puts a password into the Secret that the fleet's Proxies name.
func (f *fleet) credentials(password string) {
	f.t.Helper()
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: secret, Labels: map[string]string{v1alpha1.LabelProxyAuth: v1alpha1.LabelValueTrue}},
		Type:       corev1.SecretTypeBasicAuth,
		StringData: map[string]string{corev1.BasicAuthUsernameKey: username, corev1.BasicAuthPasswordKey: password},
	}
	err := f.client.Create(f.t.Context(), s)
	if apierrors.IsAlreadyExists(err) {
		err = f.client.Update(f.t.Context(), s)
	}
	must(f.t, err)
}

// proxy creates a Proxy that probes the website every second or two.
func (f *fleet) proxy(name string) *v1alpha1.Proxy {
	f.t.Helper()
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: v1alpha1.ProxySpec{
		Provider: entry, Placement: &v1alpha1.Placement{MachineType: "small"},
		Attributes: map[string]v1alpha1.AttributeValue{"name": v1alpha1.AttributeValue(name)},
		Auth:       &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: secret}},
		HealthCheck: &v1alpha1.HealthCheck{
			URL: "http://" + f.targetIP + ":8080/probe", ExpectedStatus: ptr.To[int32](204), Interval: &v1alpha1.Duration{Duration: metav1.Duration{Duration: 2 * time.Second}}, FailureThreshold: ptr.To[int32](2),
		},
	}}
	must(f.t, f.client.Create(f.t.Context(), p))
	return p
}

func (f *fleet) get(name string) *v1alpha1.Proxy {
	f.t.Helper()
	p := &v1alpha1.Proxy{}
	must(f.t, f.client.Get(f.t.Context(), types.NamespacedName{Namespace: f.namespace, Name: name}, p))
	return p
}

// isReady waits until the Proxy of that attempt is Ready.
func (f *fleet) isReady(name string, attempt int64) (p *v1alpha1.Proxy, took time.Duration) {
	f.t.Helper()
	took = wait(f.t, readyIn, fmt.Sprintf("%s being Ready with attempt %d", name, attempt), func() string {
		p = f.get(name)
		if got := attemptOf(p); got != attempt || !isTrue(p, v1alpha1.ConditionReady) {
			return fmt.Sprintf("attempt %d, %s", got, conditions(p))
		}
		return ""
	})
	return p, took
}

func attemptOf(p *v1alpha1.Proxy) int64 {
	if p.Status.Instance == nil {
		return 0
	}
	return p.Status.Instance.Attempt
}

func isTrue(p *v1alpha1.Proxy, condition string) bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, condition)
}

func conditions(p *v1alpha1.Proxy) string {
	var all []string
	for _, c := range p.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, ", ")
}

func reason(p *v1alpha1.Proxy, condition string) string {
	if c := meta.FindStatusCondition(p.Status.Conditions, condition); c != nil {
		return c.Reason
	}
	return ""
}

// pods returns the Pods of the fleet's Proxies.
func (f *fleet) pods() []corev1.Pod {
	f.t.Helper()
	list := &corev1.PodList{}
	must(f.t, f.client.List(f.t.Context(), list, client.InNamespace(f.namespace), client.MatchingLabels{provider.LabelManaged: provider.LabelManagedValue}))
	return list.Items
}

// pod returns the Pod of a Proxy's recorded instance.
func (f *fleet) pod(p *v1alpha1.Proxy) *corev1.Pod {
	f.t.Helper()
	namespace, name, _ := strings.Cut(p.Status.ProviderID, "/")
	pod := &corev1.Pod{}
	must(f.t, f.client.Get(f.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, pod))
	return pod
}

// nothingLeft waits until neither Pods nor Secrets of instances are left in the namespace.
func (f *fleet) nothingLeft() time.Duration {
	f.t.Helper()
	return wait(f.t, time.Minute, "nothing being left of deleted Proxies", func() string {
		list := &corev1.SecretList{}
		must(f.t, f.client.List(f.t.Context(), list, client.InNamespace(f.namespace), client.MatchingLabels{provider.LabelManaged: provider.LabelManagedValue}))
		if pods := f.pods(); len(pods)+len(list.Items) > 0 {
			return fmt.Sprintf("%d Pods and %d Secrets are left", len(pods), len(list.Items))
		}
		return ""
	})
}
