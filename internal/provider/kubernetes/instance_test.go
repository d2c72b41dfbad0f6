package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func newT(t *testing.T) *world { return newWorld(providertest.Go(t)) }

func expect(t *testing.T, what string, err, class error, reason string) {
	t.Helper()
	if !errors.Is(provider.Class(err), class) || err == nil || provider.Reason(err) != reason {
		t.Errorf("%s = %v (reason %q), want class %q, reason %q", what, err, provider.Reason(err), class, reason)
	}
}

// TestPodAsTheAPIServerHasIt: every namespace of these tests enforces the restricted Pod security, so that the Pod is there
// at all proves that it is one.
func TestPodAsTheAPIServerHasIt(t *testing.T) {
	w := newT(t)
	w.extra = `
images: {debian: 'example.com/squid:1'}
machineTypes: {small: {requests: {cpu: 100m}, limits: {memory: 96Mi}}}
nodeSelector: {pool: egress}
tolerations: [{key: egress, operator: Exists}]
topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname}]
annotations: {example.com/network: exits}
`
	req := w.guarded()
	req.Port = 80
	req.Placement = provider.Placement{Region: "eu", Zone: "eu-1", MachineType: "small", Image: "debian"}
	ref, _ := w.created(w.provider(), req)
	pod := w.pod(ref.ID)
	spec := pod.Spec
	c := spec.Containers[0]
	yes := func(b *bool) bool { return b != nil && *b }
	for what, ok := range map[string]bool{
		"no token":             spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken,
		"no service links":     spec.EnableServiceLinks != nil && !*spec.EnableServiceLinks,
		"short grace":          *spec.TerminationGracePeriodSeconds <= 5,
		"read-only root":       yes(c.SecurityContext.ReadOnlyRootFilesystem),
		"restarts":             spec.RestartPolicy == corev1.RestartPolicyAlways,
		"memory volume":        spec.Volumes[0].EmptyDir != nil && spec.Volumes[0].EmptyDir.Medium == corev1.StorageMediumMemory,
		"image":                c.Image == "example.com/squid:1",
		"requests":             c.Resources.Requests.Cpu().String() == "100m",
		"limits":               c.Resources.Limits.Memory().String() == "96Mi",
		"port":                 c.Ports[0].ContainerPort == 80,
		"privileged port":      len(spec.SecurityContext.Sysctls) == 1,
		"node selector":        spec.NodeSelector["pool"] == "egress",
		"toleration":           slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "egress" }),
		"spread":               len(spec.TopologySpreadConstraints) == 1 && len(spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels) > 0,
		"annotation":           pod.Annotations["example.com/network"] == "exits",
		"probes":               c.ReadinessProbe.TCPSocket != nil && c.LivenessProbe.TCPSocket != nil && c.StartupProbe.TCPSocket != nil,
		"Secret is a folder":   slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "auth" && m.ReadOnly && m.SubPath == "" }),
		"owner":                len(pod.OwnerReferences) == 1 && pod.OwnerReferences[0].Kind == "Proxy" && string(pod.OwnerReferences[0].UID) == req.UID,
		"owner does not block": pod.OwnerReferences[0].BlockOwnerDeletion == nil,
	} {
		if !ok {
			t.Errorf("%s: not as it should be", what)
		}
	}
	var zones []string
	for _, e := range spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions {
		zones = append(zones, e.Key+"="+e.Values[0])
	}
	if want := []string{"topology.kubernetes.io/region=eu", "topology.kubernetes.io/zone=eu-1"}; !slices.Equal(zones, want) {
		t.Errorf("affinity %v", zones)
	}
	text, err := json.Marshal(pod)
	must(t0(t), err)
	if strings.Contains(string(text), "password") || strings.Contains(string(text), "$2b$") {
		t.Errorf("the Pod holds credentials: %s", text)
	}
	secret, err := w.kube.CoreV1().Secrets(w.namespace).Get(t.Context(), req.Name, metav1.GetOptions{})
	must(t0(t), err)
	if got := string(secret.Data["htpasswd"]); !strings.HasPrefix(got, "user:$2b$10$") || strings.Contains(got, "password") || len(secret.Data) != 1 {
		t.Errorf("the Secret holds %q", secret.Data)
	}
}

func t0(t *testing.T) providertest.T { return providertest.Go(t) }

func TestClientsInsteadOfCredentials(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, err := p.Plan(t.Context(), w.request())
	expect(t, "Plan of an open proxy", err, provider.ErrPermanent, provider.ReasonOpenProxyRefused)
	req := w.request()
	expect(t, "Create of an open proxy", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrPermanent, provider.ReasonOpenProxyRefused)
	w.extra += "allowClients: [10.0.0.0/8]\n"
	p = w.provider()
	ref, _ := w.created(p, req)
	left, _ := w.leftovers(t.Context())
	if len(left) != 1 || !strings.Contains(left[0], "Pod") {
		t.Errorf("there is %v", left)
	}
	if conf := w.pod(ref.ID).Spec.Containers[0].Env[0].Value; !strings.Contains(conf, "http_access deny !clients") || strings.Contains(conf, "auth_param") {
		t.Errorf("the configuration is\n%s", conf)
	}
	expect(t, "UpdateCredentials", p.UpdateCredentials(t.Context(), ref, provider.Credentials{Username: "u", Password: "p", Revision: "r"}), provider.ErrPermanent, "")
}

// TestOwnerOnlyWhereItCanBeFound: Kubernetes collects at once what an absent owner owns.
func TestOwnerOnlyWhereItCanBeFound(t *testing.T) {
	w := newT(t)
	w.extra = "namespace: " + w.namespace
	p := w.provider()
	req := w.guarded()
	req.Namespace = "crawlers"
	ref := provider.Ref{ID: w.namespace + "/" + req.Name, UID: req.UID, Attempt: 1, RequestedAt: clock{w}.Now()}
	must(t0(t), p.Create(t.Context(), req, ref))
	inst := w.reach(p, ref, provider.StateRunning)
	if inst.Marks.Namespace != "crawlers" {
		t.Errorf("marks %+v", inst.Marks)
	}
	if owners := w.pod(ref.ID).OwnerReferences; len(owners) > 0 {
		t.Errorf("a Pod in another namespace has owners %v", owners)
	}
	w.extra = "kubeconfig: /elsewhere\nnamespaces: [" + w.namespace + "]"
	req = w.guarded()
	ref, _ = w.created(w.provider(), req)
	if owners := w.pod(ref.ID).OwnerReferences; len(owners) > 0 {
		t.Errorf("a Pod in another cluster has owners %v", owners)
	}
}

// TestCreateLeavesNothingOfWhatIsRefused: the Secret goes with the Pod that there will not be.
func TestCreateLeavesNothingOfWhatIsRefused(t *testing.T) {
	for _, tc := range []struct {
		reason string
		do     func(*http.Request, http.RoundTripper) (*http.Response, error)
		class  error
		left   int
	}{
		{"a webhook's denial", refuse(http.StatusForbidden, "Forbidden", "admission webhook \"w\" denied the request: exceeded patience", nil), provider.ErrPermanent, 0},
		{"invalid", refuse(http.StatusUnprocessableEntity, "Invalid", "no", nil), provider.ErrPermanent, 0},
		{"an answer that says nothing", refuse(http.StatusInternalServerError, "InternalError", "etcd", nil), provider.ErrTransient, 1},
		{"a time-out", refuse(http.StatusGatewayTimeout, "Timeout", "late", nil), provider.ErrTransient, 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newT(t)
			p := w.provider()
			w.wire.add(&fault{match: on(http.MethodPost, "pods"), once: true, do: tc.do})
			req := w.guarded()
			expect(t, "Create", p.Create(t.Context(), req, w.ref(req, 1)), tc.class, "")
			if left, _ := w.leftovers(t.Context()); len(left) != tc.left {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestCreateIsCompletedAfterACrash: between Secret and Pod the process ends.
func TestCreateIsCompletedAfterACrash(t *testing.T) {
	w := newT(t)
	req := w.guarded()
	ref := w.ref(req, 1)
	ctx, die := context.WithCancel(t.Context())
	w.wire.add(&fault{match: on(http.MethodPost, "pods"), once: true, do: func(*http.Request, http.RoundTripper) (*http.Response, error) {
		die()
		return nil, context.Canceled
	}})
	if err := w.provider().Create(ctx, req, ref); err == nil {
		t.Fatal("it succeeded")
	}
	p := w.provider()
	inst, err := p.Get(t.Context(), ref)
	must(t0(t), err)
	if inst.State != provider.StateProvisioning || inst.Identity != "" || inst.Marks != (provider.Marks{}) {
		t.Errorf("within the window it is %+v, want to be asked again", inst)
	}
	// Nobody asks again.
	inst, err = p.Get(t.Context(), w.old(ref))
	must(t0(t), err)
	if inst.State != provider.StateTerminated || inst.Marks.Attempt != 1 {
		t.Errorf("after the window it is %+v, want to be deleted", inst)
	}
	next := w.ref(req, 2)
	expect(t, "the next attempt before that", p.Create(t.Context(), req, next), provider.ErrTransient, provider.ReasonAttemptMismatch)
	// The same attempt is asked for again.
	must(t0(t), p.Create(t.Context(), req, ref))
	w.reach(p, ref, provider.StateRunning)
}

func TestDeletedPodIsNotTheAttemptAskedFor(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.guarded()
	ref, _ := w.created(p, req)
	must(t0(t), p.Delete(t.Context(), ref))
	expect(t, "Create while it ends", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrTransient, "")
}

// TestServerGivesUpWithTheCaller: what the API server goes on with after the window would be a creation that nobody expects.
func TestServerGivesUpWithTheCaller(t *testing.T) {
	w := newT(t)
	p := w.provider()
	var limits []string
	w.wire.add(&fault{match: method(http.MethodPost), do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		limits = append(limits, r.URL.Query().Get("timeout"))
		return next.RoundTrip(r)
	}})
	req := w.guarded()
	ref := w.ref(req, 1)
	ref.RequestedAt = ref.RequestedAt.Add(-20 * time.Second)
	must(t0(t), p.Create(t.Context(), req, ref))
	for _, l := range limits {
		if d, err := time.ParseDuration(l); err != nil || d > 10*time.Second || d <= 0 {
			t.Errorf("a time-out of %q", l)
		}
	}
	if len(limits) != 2 {
		t.Errorf("%d creations", len(limits))
	}
}

// TestRealRefusals: what the API server itself says to somebody without rights, and to a token that it does not know.
func TestRealRefusals(t *testing.T) {
	w := newT(t)
	nobody := rest.CopyConfig(cluster)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	stranger := rest.AnonymousClientConfig(cluster)
	stranger.BearerToken = "unknown"
	down := rest.CopyConfig(cluster)
	down.Host = "https://127.0.0.1:1"
	for _, tc := range []struct {
		reason string
		config *rest.Config
		class  error
		why    string
	}{
		{"no rights", nobody, provider.ErrDenied, ""},
		{"an unknown token", stranger, provider.ErrDenied, ""},
		{"nobody there", down, provider.ErrTransient, provider.ReasonUnreachable},
	} {
		p, err := open(w.block(), entry, owner, w.window, tc.config)
		must(t0(t), err)
		req := w.guarded()
		ref := w.ref(req, 1)
		_, err = p.Get(t.Context(), w.old(ref))
		expect(t, tc.reason+": Get", err, tc.class, tc.why)
		expect(t, tc.reason+": Create", p.Create(t.Context(), req, ref), tc.class, tc.why)
		expect(t, tc.reason+": Delete", p.Delete(t.Context(), ref), tc.class, tc.why)
		_, err = p.ListByTag(t.Context())
		expect(t, tc.reason+": ListByTag", err, tc.class, tc.why)
		again := err.Error()
		if _, err = p.ListByTag(t.Context()); err.Error() != again {
			t.Errorf("%s: two texts for one thing:\n%s\n%v", tc.reason, again, err)
		}
		must(t0(t), p.Close())
	}
}

// TestPodSecurityDenialIsPermanent: the real admission refuses, and the Secret goes again.
func TestPodSecurityDenialIsPermanent(t *testing.T) {
	w := newT(t)
	p := w.provider()
	w.wire.add(&fault{match: on(http.MethodPost, "pods"), once: true, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		_, err := w.kube.CoreV1().Pods(w.namespace).Create(r.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "loose"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		var status apierrors.APIStatus
		if !errors.As(err, &status) {
			return nil, fmt.Errorf("admitted: %w", err)
		}
		return refuse(int(status.Status().Code), string(status.Status().Reason), status.Status().Message, nil)(r, next)
	}})
	req := w.guarded()
	err := p.Create(t.Context(), req, w.ref(req, 1))
	expect(t, "Create", err, provider.ErrPermanent, "")
	if !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("it says %v", err)
	}
	if left, _ := w.leftovers(t.Context()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
