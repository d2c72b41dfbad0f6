package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const entry = "pods"

var owner = provider.Owner{Installation: "kubernetes-test", Cluster: "cluster-a"}

// live is set where the tests run against a whole cluster (see TestConformsOnARealCluster), and empty otherwise.
var live struct{ kubeconfig, image string }

// world is a namespace of the real API server under the strictest Pod security, with a kubelet of the test's own.
type world struct {
	t         providertest.T
	kube      clientgo.Interface
	wire      *wire
	config    *rest.Config // leads through wire
	namespace string
	extra     string // further lines of the entry's block
	window    provider.Window

	mu     sync.Mutex
	offset time.Duration
	uids   int
	boots  bool
	pods   int
}

// clock is the real time, since the API server stamps what it makes, and what a test has added.
type clock struct{ w *world }

func (c clock) Now() time.Time {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return time.Now().Add(c.w.offset)
}

func (c clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func newWorld(t providertest.T) *world {
	t.Helper()
	kube, err := clientgo.NewForConfig(cluster)
	must(t, err)
	w := &world{t: t, kube: kube, boots: true, extra: "resources: {requests: {cpu: 10m}}\n"}
	w.window = provider.Window{Clock: clock{w}, CallTimeout: 30 * time.Second, Visibility: kubernetes.Visibility, Skew: 5 * time.Second}
	w.wire = &wire{now: clock{w}.Now}
	w.config = rest.CopyConfig(cluster)
	w.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		w.wire.mu.Lock()
		defer w.wire.mu.Unlock()
		w.wire.next = next
		return w.wire
	})
	ns, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "epx-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	must(t, err)
	w.namespace = ns.Name
	if live.kubeconfig != "" {
		// Owners that are not there would have real Pods collected; there are none across clusters.
		w.extra += fmt.Sprintf("kubeconfig: %q\nimage: %q\n", live.kubeconfig, live.image)
		t.Cleanup(func() {
			must(t, kube.CoreV1().Namespaces().Delete(context.Background(), ns.Name, metav1.DeleteOptions{}))
		})
	}
	return w
}

func (w *world) block() string {
	if strings.Contains(w.extra, "namespace") {
		return w.extra
	}
	// The other namespace is there to be read while the first one cannot be.
	return fmt.Sprintf("namespaces: [%s, default]\n%s", w.namespace, w.extra)
}

func open(config, name string, o provider.Owner, window provider.Window, cluster *rest.Config) (*kubernetes.Provider, error) {
	block, err := registry.ParseBlock(kubernetes.Type, []byte(config))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewOn(provider.Options{Name: name, Block: block, Owner: o, Window: window}, cluster)
}

// provider constructs one as a process that has just started would.
func (w *world) provider() *kubernetes.Provider { return w.providerOf(entry, owner) }

func (w *world) providerOf(name string, o provider.Owner) *kubernetes.Provider {
	w.t.Helper()
	p, err := open(w.block(), name, o, w.window, w.config)
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (w *world) request() provider.CreateRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.uids++
	uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", w.uids)
	return provider.CreateRequest{
		Name: provider.NameFromUID(uid), UID: uid, Namespace: w.namespace, ProxyName: fmt.Sprintf("exit-%d", w.uids),
		Port: 3128, Spec: "v1-0123456789abcdef",
	}
}

// guarded is a request with credentials.
func (w *world) guarded() provider.CreateRequest {
	req := w.request()
	req.Credentials = &provider.Credentials{Username: "user", Password: "password", Revision: "r1"}
	return req
}

func (w *world) ref(req provider.CreateRequest, attempt int64) provider.Ref {
	return provider.Ref{ID: req.Namespace + "/" + req.Name, UID: req.UID, Attempt: attempt, RequestedAt: clock{w}.Now()}
}

// old returns ref as one whose window has passed.
func (w *world) old(ref provider.Ref) provider.Ref {
	ref.RequestedAt = clock{w}.Now().Add(-time.Minute)
	return ref
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	w.offset += d
	w.mu.Unlock()
	w.wire.settle()
}

// wait gives the kubelet its turn.
func (w *world) wait(ctx context.Context) error {
	t := time.NewTimer(2 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.wire.settle() {
		w.advance(500 * time.Millisecond)
	}
	w.kubelet()
	return nil
}

// kubelet does once what scheduler and kubelet do to the operator's Pods.
func (w *world) kubelet() {
	w.mu.Lock()
	boots := w.boots
	w.mu.Unlock()
	api := w.kube.CoreV1().Pods(w.namespace)
	list, err := api.List(context.Background(), metav1.ListOptions{LabelSelector: provider.LabelManaged})
	must(w.t, err)
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case pod.DeletionTimestamp != nil:
			w.remove(pod.Name, pod.UID)
		case pod.Spec.NodeName == "":
			err := api.Bind(context.Background(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}, metav1.CreateOptions{})
			w.tolerate(err)
		case boots && pod.Status.Phase == corev1.PodPending && pod.Status.PodIP == "":
			w.mu.Lock()
			w.pods++
			ip := fmt.Sprintf("10.1.%d.%d", w.pods/250, 1+w.pods%250)
			w.mu.Unlock()
			w.status(pod.Name, running(ip))
		}
	}
}

// running is the status of a Pod that serves.
func running(ip string) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "squid", Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
}

// status sets members of a Pod's status, as the kubelet does.
func (w *world) status(name string, s corev1.PodStatus) {
	patch, err := json.Marshal(map[string]any{"status": s})
	must(w.t, err)
	_, err = w.kube.CoreV1().Pods(w.namespace).Patch(context.Background(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	w.tolerate(err)
}

// remove is what ends a Pod: nobody waits any more.
func (w *world) remove(name string, uid types.UID) {
	err := w.kube.CoreV1().Pods(w.namespace).Delete(context.Background(), name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &uid},
	})
	w.tolerate(err)
}

// tolerate lets go what happens when somebody else was faster.
func (w *world) tolerate(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.t.Helper()
		w.t.Fatalf("%v", err)
	}
}

func nameIn(id string) string { return id[strings.IndexByte(id, '/')+1:] }

func (w *world) pod(id string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.kube.CoreV1().Pods(w.namespace).Get(context.Background(), nameIn(id), metav1.GetOptions{})
	must(w.t, err)
	return pod
}

// created creates an instance and returns it running.
func (w *world) created(p *kubernetes.Provider, req provider.CreateRequest) (provider.Ref, *provider.Instance) {
	w.t.Helper()
	ref := w.ref(req, 1)
	must(w.t, p.Create(w.t.Context(), req, ref))
	return ref, w.reach(p, ref, provider.StateRunning)
}

func (w *world) reach(p *kubernetes.Provider, ref provider.Ref, want provider.State) *provider.Instance {
	w.t.Helper()
	var last provider.State
	for range 200 {
		inst, err := p.Get(w.t.Context(), ref)
		must(w.t, err)
		if inst.State == want {
			return inst
		}
		last = inst.State
		must(w.t, w.wait(w.t.Context()))
	}
	w.t.Fatalf("%s is %s, want %s", ref.ID, last, want)
	return nil
}

func must(t providertest.T, err error) {
	if err != nil {
		t.Helper()
		t.Fatalf("%v", err)
	}
}
