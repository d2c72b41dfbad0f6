//go:build e2e

package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	operatorNamespace = "egress-proxies-system"
	deployment        = "egress-proxies-operator"
	// token is what crawlers of the tests have.
	token = "e2e-discovery-token-3f9a1c"
	entry = "pods"
	// targetNamespace is where the website is.
	targetNamespace = "e2e-target"
)

// overlay is what a user writes to install the operator with the provider kubernetes.
const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: ` + operatorNamespace + `
resources: [%[1]s/config/default]
components: [%[1]s/config/components/provider-kubernetes]
images:
- {name: egress-proxies-operator, newName: %[2]q, newTag: %[3]q}
secretGenerator:
- {name: egress-proxies-discovery, literals: [token=` + token + `]}
configMapGenerator:
- {name: egress-proxies-providers, behavior: replace, files: [providers.yaml]}
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --log-level=1}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --quota-retry=5s}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --gc-interval=10s}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --gc-min-age=1m}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --drain-timeout=5s}
    # That a Pod is gone is proven when no creation can be under way any more: 14 s after it was asked for, instead of 45 s.
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --provider-call-timeout=3s}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --clock-skew-allowance=1s}
`

const providers = `providers:
- name: ` + entry + `
  type: kubernetes
  kubernetes:
    image: %[1]q
    # The website of the tests stands for the outside; nothing else that is private may be reached.
    allowDestinations: [%[2]q]
    machineTypes:
      small: {requests: {cpu: 10m, memory: 48Mi}, limits: {memory: 192Mi}}
    resources: {requests: {cpu: 10m, memory: 48Mi}, limits: {memory: 192Mi}}
`

// install puts the website and the operator into the cluster and waits until both serve.
func (c *cluster) install(ctx context.Context) error {
	if err := c.installTarget(ctx); err != nil {
		return err
	}
	manifests, err := c.manifests(ctx)
	if err != nil {
		return err
	}
	for _, o := range manifests {
		if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("e2e"), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return poll(ctx, 2*time.Minute, func() string {
		d := &appsv1.Deployment{}
		if err := c.client.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: deployment}, d); err != nil {
			return err.Error()
		}
		if d.Status.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Sprintf("%d of %d replicas of the operator are available", d.Status.AvailableReplicas, *d.Spec.Replicas)
		}
		return ""
	})
}

func (c *cluster) installTarget(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: targetNamespace}}
	if err := c.client.Create(ctx, ns); err != nil {
		return err
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: targetNamespace, Name: "target"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](1),
			Containers: []corev1.Container{{Name: "target", Image: c.target, ReadinessProbe: &corev1.Probe{
				PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intOrString(8443)}},
			}}},
		},
	}
	if err := poll(ctx, time.Minute, func() string { // the service account may come a little later
		if err := c.client.Create(ctx, pod.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			return err.Error()
		}
		return ""
	}); err != nil {
		return err
	}
	return poll(ctx, time.Minute, func() string {
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		if c.targetIP = pod.Status.PodIP; c.targetIP == "" || !ready(pod) {
			return "the website is not up: " + whyNot(pod)
		}
		return ""
	})
}

// manifests builds the overlay with kustomize. CRDs and namespaces come first.
func (c *cluster) manifests(ctx context.Context) ([]*unstructured.Unstructured, error) {
	repo, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		return nil, err
	}
	// kustomize wants relative paths.
	dir, err := os.MkdirTemp(filepath.Join(repo, "test", "e2e", "kubernetes"), "overlay-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// The registry may have a port.
	name, tag := c.operator, "latest"
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name, tag = name[:i], name[i+1:]
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, overlay, "../../../..", name, tag), 0o600),
		os.WriteFile(filepath.Join(dir, "providers.yaml"), fmt.Appendf(nil, providers, c.squid, c.targetIP+"/32"), 0o600),
	); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", "-modfile=hack/tools/go.mod", "kustomize", "build", dir)
	cmd.Dir = repo
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w: %s", err, stderr.String())
	}
	var all []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	first := []string{"Namespace", "CustomResourceDefinition"}
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int {
		return rank(first, a.GetKind()) - rank(first, b.GetKind())
	})
	return all, nil
}

func rank(first []string, kind string) int {
	if i := slices.Index(first, kind); i >= 0 {
		return i
	}
	return len(first)
}

// uninstall removes everything, the Proxies while there still is an operator to clean up behind them.
func (c *cluster) uninstall(ctx context.Context) error {
	manifests, err := c.manifests(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(manifests)
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: targetNamespace}}}
	for _, o := range manifests {
		objects = append(objects, o)
	}
	var errs []error
	for _, o := range objects {
		errs = append(errs, client.IgnoreNotFound(c.client.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationForeground))))
	}
	for _, name := range []string{targetNamespace, operatorNamespace} {
		errs = append(errs, poll(ctx, time.Minute, func() string {
			_, err := c.kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return ""
			}
			return fmt.Sprintf("namespace %s is still there: %v", name, err)
		}))
	}
	return errors.Join(errs...)
}
