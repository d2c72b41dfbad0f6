package manifests

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// TestTheOperatorWorksWithTheRightsOfTheBase takes a Proxy of the provider local through its whole life, and expects that
// the API server refused nothing on the way.
func TestTheOperatorWorksWithTheRightsOfTheBase(t *testing.T) {
	c := newClient(t, config)
	o := install(t, c, "default")
	check(t, c, true, granted())
	ns := newNamespace(t, c)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer origin.Close()
	op := start(t, c, o, fmt.Sprintf("providers:\n- name: here\n  type: local\n  local:\n    stateDir: %s\n    allowDestinations: [127.0.0.0/8]\n    pool: [{listen: 127.0.83.1}]\n",
		filepath.Join(t.TempDir(), "proxies")))
	service := labels.SelectorFromSet(find[corev1.Service](t, o, "Service", "egress-proxies-discovery").Spec.Selector)
	selected := func() bool {
		p := &corev1.Pod{}
		must(t, c.Get(t.Context(), op.pod, p))
		return service.Matches(labels.Set(p.Labels))
	}
	until(t, "the leader's Pod selected by the Service", selected)

	must(t, c.Create(t.Context(), credentials(ns)))
	p := proxy(ns, "here")
	p.Spec.Port, p.Spec.HealthCheck = ptr.To(freePort(t)), &v1alpha1.HealthCheck{
		URL: origin.URL, ExpectedStatus: ptr.To[int32](http.StatusNoContent), Interval: v1alpha1.NewDuration(time.Second),
	}
	must(t, c.Create(t.Context(), p))
	until(t, "the Proxy Ready", func() bool { return condition(t, c, p, v1alpha1.ConditionReady) == metav1.ConditionTrue })
	if code, body := get(t, "http://"+op.api+"/v1/proxies?healthy=true"); code != http.StatusOK || !strings.Contains(body, p.Name) {
		t.Errorf("the API: %d %s", code, body)
	}
	until(t, "an Event about it", func() bool {
		var l eventsv1.EventList
		must(t, c.List(t.Context(), &l, client.InNamespace(ns)))
		return len(l.Items) > 0
	})
	must(t, c.Delete(t.Context(), p))
	until(t, "the Proxy gone", gone(t, c, p))

	refused, done := op.refusals(t)
	if len(refused) > 0 || len(done) == 0 {
		t.Errorf("refused: %q\ngranted: %q", refused, done)
	}
	op.stop(t)
	if selected() {
		t.Error("the Service still selects a Pod that has stopped")
	}
	if log := strings.ToLower(op.log.String()); strings.Contains(log, "forbidden") {
		t.Error("its log tells of something forbidden")
	}
}

const pods = "providers:\n- name: pods\n  type: kubernetes\n  kubernetes: {image: squid, namespace: " + podsOnly + "}\n"

// TestPodsTakeTheComponent: with the component for one namespace, which has the least rights of both, the provider
// kubernetes makes and removes a Pod there, and Pod security lets it; without one the API server refuses.
func TestPodsTakeTheComponent(t *testing.T) {
	c := newClient(t, config)
	t.Run("with", func(t *testing.T) {
		o := install(t, c, "samples/overlay-one-namespace")
		ns := newNamespace(t, c)
		check(t, c, true, append(granted(), forPods(podsOnly)...))
		op := start(t, c, o, pods)
		must(t, c.Create(t.Context(), credentials(ns)))
		p := proxy(ns, "pods")
		must(t, c.Create(t.Context(), p))
		made := func() int {
			var l corev1.PodList
			must(t, c.List(t.Context(), &l, client.InNamespace(podsOnly)))
			return len(l.Items)
		}
		until(t, "a Pod", func() bool { return made() == 1 })
		must(t, c.Delete(t.Context(), p))
		until(t, "the Proxy gone", gone(t, c, p))
		if made() != 0 {
			t.Error("its Pod is still there")
		}
		if refused, done := op.refusals(t); len(refused) > 0 || len(done) == 0 {
			t.Errorf("refused: %q\ngranted: %q", refused, done)
		}
		op.stop(t)
	})
	t.Run("without", func(t *testing.T) {
		o := install(t, c, "default")
		ns := newNamespace(t, c)
		check(t, c, true, granted())
		check(t, c, false, forPods(podsOnly))
		op := start(t, c, o, pods)
		must(t, c.Create(t.Context(), credentials(ns)))
		must(t, c.Create(t.Context(), proxy(ns, "pods")))
		until(t, "a refusal", func() bool {
			if code, _ := get(t, "http://"+op.api+"/healthz"); code != http.StatusOK {
				return false
			}
			if code, _ := scrape(t, op.metrics, op.scraper); code != http.StatusOK {
				return false
			}
			refused, _ := op.refusals(t)
			return len(refused) > 0
		})
	})
}

func newNamespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "manifests-"}}
	must(t, c.Create(t.Context(), ns))
	return ns.Name
}

func credentials(namespace string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials", Labels: map[string]string{v1alpha1.LabelProxyAuth: v1alpha1.LabelValueTrue}},
		Type:       corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": "crawler", "password": "pass-w0rd"},
	}
}

func proxy(namespace, provider string) *v1alpha1.Proxy {
	return &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "berlin"},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeManaged, Provider: provider, Auth: &v1alpha1.Auth{SecretRef: v1alpha1.SecretRef{Name: "credentials"}},
		},
	}
}

func condition(t *testing.T, c client.Client, p *v1alpha1.Proxy, of string) metav1.ConditionStatus {
	t.Helper()
	now := &v1alpha1.Proxy{}
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(p), now))
	if found := meta.FindStatusCondition(now.Status.Conditions, of); found != nil {
		return found.Status
	}
	return metav1.ConditionUnknown
}

func gone(t *testing.T, c client.Client, p *v1alpha1.Proxy) func() bool {
	return func() bool {
		err := c.Get(t.Context(), client.ObjectKeyFromObject(p), &v1alpha1.Proxy{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err != nil
	}
}

func freePort(t *testing.T) int32 {
	t.Helper()
	_, port, err := net.SplitHostPort(freeAddress(t))
	must(t, err)
	n, err := strconv.ParseInt(port, 10, 32)
	must(t, err)
	return int32(n)
}
