package manifests

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// earlier is a clock that is behind, so that what is made by it is old enough for the collector.
type earlier struct{ clock.RealClock }

func (earlier) Now() time.Time                  { return time.Now().Add(-2 * time.Minute) }
func (earlier) Since(t time.Time) time.Duration { return time.Since(t.Add(2 * time.Minute)) }

// lives is a namespace with a Proxy of every kind that needs neither a cloud nor a hypervisor.
type lives struct {
	t  *testing.T
	c  client.Client
	ns string
}

func (l *lives) create(name string, spec v1alpha1.ProxySpec) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: l.ns, Name: name}, Spec: spec}
	must(l.t, l.c.Create(l.t.Context(), p))
	return p
}

func (l *lives) annotate(p *v1alpha1.Proxy, key, value string) {
	must(l.t, l.c.Patch(l.t.Context(), p, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))))
}

func (l *lives) until(what string, done func() bool) {
	l.t.Helper()
	until(l.t, what, func() bool { l.kubelet(); return done() })
}

func (l *lives) is(p *v1alpha1.Proxy, conditionType string) func() bool {
	return func() bool { return condition(l.t, l.c, p, conditionType) == metav1.ConditionTrue }
}

// attempt is the number of the Proxy's instance.
func (l *lives) attempt(p *v1alpha1.Proxy) int64 {
	now := &v1alpha1.Proxy{}
	must(l.t, l.c.Get(l.t.Context(), client.ObjectKeyFromObject(p), now))
	if now.Status.Instance == nil {
		return 0
	}
	return now.Status.Instance.Attempt
}

// kubelet lets Pods run that the operator has made.
func (l *lives) kubelet() {
	var list corev1.PodList
	must(l.t, l.c.List(l.t.Context(), &list, client.InNamespace(podsOnly), client.HasLabels{provider.LabelManaged}))
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.PodIP != "" || pod.DeletionTimestamp != nil {
			continue
		}
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "127.0.83.9", []corev1.PodIP{{IP: "127.0.83.9"}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "squid", Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		must(l.t, client.IgnoreNotFound(l.c.Status().Update(l.t.Context(), pod)))
	}
}

// TestTheRightsAreThoseThatAreUsed takes Proxies of all kinds through their lives and asks the API server's audit log: nothing
// was refused, and of all that the manifests grant there is nothing that was not used.
func TestTheRightsAreThoseThatAreUsed(t *testing.T) {
	c := newClient(t, config)
	o := kustomizeWith(t, "components/provider-kubernetes-one-namespace")
	o.install(t, c)
	check(t, c, true, append(granted(), forPods(podsOnly)...))
	// That of an operator before would be taken over.
	must(t, client.IgnoreNotFound(c.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}})))
	_, before := requestsFrom(t, 0)
	l := &lives{t, c, newNamespace(t, c)}
	l.live(o)

	asked, _ := requestsFrom(t, before)
	grants, others := o.grants(t)
	if len(asked) == 0 || len(grants) == 0 {
		t.Fatalf("%d requests, %d grants", len(asked), len(grants))
	}
	used := map[int]bool{}
	for _, q := range asked {
		if q.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("refused: %s %s", q.Verb, q.RequestURI)
		}
		for i, g := range grants {
			if g.allows(q) {
				used[i] = true
				break
			}
		}
	}
	for i, g := range grants {
		if !used[i] {
			t.Errorf("granted and never used: %s", g)
		}
	}
	// Whoever scrapes has it, which life does.
	if len(others) != 1 || others[0] != "ClusterRole egress-proxies-metrics-reader" {
		t.Errorf("roles that the operator does not have: %q", others)
	}
	t.Logf("%d requests by %d grants", len(asked), len(grants))
}

func (l *lives) live(o objects) {
	t, c := l.t, l.c
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer origin.Close()
	cloud, err := gcpemulator.New(gcpemulator.Options{Clock: earlier{}}).Listen(t.Context(), "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, cloud.Close()) }()
	host := fmt.Sprintf("- name: %s-host\n  type: local\n  local:\n    stateDir: %s\n    allowDestinations: [127.0.0.0/8]\n    pool: [{listen: 127.0.83.2}]\n", l.ns,
		filepath.Join(t.TempDir(), "proxies"))
	elsewhere := fmt.Sprintf("- name: %s-cloud\n  type: gcp\n  gcp: {project: project-a, endpoint: %q, anonymous: true, firewall: {existingSourceRanges: [10.0.0.0/8]}}\n", l.ns, cloud.URL)
	inside := fmt.Sprintf("- name: %s-pods\n  type: kubernetes\n  kubernetes: {image: squid, namespace: %s}\n", l.ns, podsOnly)
	run := func() *operator {
		return start(t, c, o, "providers:\n"+host+elsewhere+inside,
			"--gc-interval=10s", "--gc-min-age=1m", "--provider-check-interval=1s", "--external-allow-cidrs=127.0.0.0/8")
	}
	op := run()

	secret := credentials(l.ns)
	must(t, c.Create(t.Context(), secret))
	auth := &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: secret.Name}}
	probe := &v1alpha1.HealthCheck{URL: origin.URL, ExpectedStatus: ptr.To[int32](http.StatusNoContent), Interval: v1alpha1.NewDuration(time.Second)}
	vm := v1alpha1.ProxySpec{
		Mode: v1alpha1.ModeManaged, Provider: l.ns + "-cloud", HealthCheck: probe,
		Placement: &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"},
	}
	onHost := l.create("host", v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: l.ns + "-host", Port: ptr.To(freePort(t)), Auth: auth, HealthCheck: probe})
	inPod := l.create("pod", v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: l.ns + "-pods", Auth: auth, HealthCheck: probe})
	left := l.create("left", vm)
	inCloud := l.create("cloud", vm)
	bought := l.create("bought", v1alpha1.ProxySpec{
		Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "127.0.83.2", Port: *onHost.Spec.Port}, Auth: auth, HealthCheck: probe,
	})

	l.until("an instance that will be orphaned", l.is(left, v1alpha1.ConditionProvisioned))
	l.annotate(left, v1alpha1.AnnotationSkipCleanup, v1alpha1.LabelValueTrue)
	must(t, c.Delete(t.Context(), left))
	for _, p := range []*v1alpha1.Proxy{onHost, bought} {
		l.until(p.Name+" Ready", l.is(p, v1alpha1.ConditionReady))
	}
	for _, p := range []*v1alpha1.Proxy{inPod, inCloud} {
		l.until(p.Name+" provisioned", l.is(p, v1alpha1.ConditionProvisioned))
	}
	l.until("a lease", func() bool { return lease(t, op) })
	l.until("metrics", func() bool { code, _ := scrape(t, op.metrics, op.scraper); return code == http.StatusOK })
	l.until("the health of all providers", func() bool {
		for _, of := range []string{"-host", "-cloud", "-pods"} {
			ph := &v1alpha1.ProviderHealth{}
			if c.Get(t.Context(), client.ObjectKey{Name: l.ns + of}, ph) != nil || ph.Status.Summary != "1/1" {
				return false
			}
		}
		return true
	})

	// The next process finds what this one has written, and lists what older API servers do not stream.
	op.stop(t)
	t.Setenv("KUBE_FEATURE_WatchListClient", "false")
	op = run()
	l.until("the next process at work", func() bool { return lease(t, op) })

	// Another password goes to the Pod that is there.
	must(t, c.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"password":"an0ther"}}`))))
	// The same Event again: what is said twice is counted.
	for range 2 {
		was := l.attempt(onHost)
		l.annotate(onHost, v1alpha1.AnnotationReplace, fmt.Sprint(was))
		l.until("a new instance", func() bool { return l.attempt(onHost) > was && l.is(onHost, v1alpha1.ConditionReady)() })
	}
	l.until("the orphan collected", func() bool {
		return !slices.ContainsFunc(cloud.Leftovers(), func(o gcpemulator.Leftover) bool {
			return slices.Contains(slices.Collect(maps.Values(o.Labels)), string(left.UID))
		})
	})
	if !strings.Contains(op.log.String(), "deleting an orphan") {
		t.Error("it was not the collector")
	}

	for _, p := range []*v1alpha1.Proxy{onHost, inPod, inCloud, bought} {
		must(t, c.Delete(t.Context(), p))
		l.until(p.Name+" gone", gone(t, c, p))
	}
	must(t, os.WriteFile(op.providers, []byte("providers:\n"+host), 0o600))
	l.until("the health of entries that are gone", func() bool {
		return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKey{Name: l.ns + "-cloud"}, &v1alpha1.ProviderHealth{}))
	})
	if left := cloud.Leftovers(); len(left) > 0 {
		t.Errorf("left in the cloud: %v", left)
	}
	op.stop(t)
}

// lease reports whether a lease could be had.
func lease(t *testing.T, op *operator) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+op.api+"/v1/leases", strings.NewReader(`{"ttlSeconds":1}`))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	must(t, res.Body.Close())
	return res.StatusCode == http.StatusCreated
}
