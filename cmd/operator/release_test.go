package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// gauge stands before a cloud and notes what is asked of it, lists aside, which are a target of their own.
type gauge struct {
	next http.Handler

	mu      sync.Mutex
	now     int
	most    int
	inserts []time.Time
}

func (g *gauge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/aggregated/") {
		g.next.ServeHTTP(w, r)
		return
	}
	g.mu.Lock()
	g.now++
	g.most = max(g.most, g.now)
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/instances") {
		g.inserts = append(g.inserts, time.Now())
	}
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now--
	}()
	g.next.ServeHTTP(w, r)
}

// TestAThousandAreReleasedByAnEntry adds the entry that a thousand Proxies have waited for.
func TestAThousandAreReleasedByAnEntry(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	const proxies = 1000
	x := &cloudOnHost{t: t, c: cluster(t), folder: t.TempDir(), port: 3128}
	x.ns = newNamespace(t, x.c)
	emulator, err := gcpemulator.New(gcpemulator.Options{}).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	x.emulator = emulator
	t.Cleanup(func() { _ = emulator.Close() })
	at, err := url.Parse(emulator.URL)
	if err != nil {
		t.Fatal(err)
	}
	g := &gauge{next: httputil.NewSingleHostReverseProxy(at)}
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)
	x.publish(providersOf())
	p := x.start("--drift-poll=1m", "--gc-interval=1h")

	var group errgroup.Group
	group.SetLimit(16)
	for i := range proxies {
		group.Go(func() error {
			return x.c.Create(t.Context(), &v1alpha1.Proxy{
				ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: fmt.Sprintf("p%04d", i)},
				Spec: v1alpha1.ProxySpec{
					Mode: v1alpha1.ModeManaged, Provider: x.named("late"), Port: ptr.To(x.port),
					Placement:   &v1alpha1.Placement{Zone: "us-central1-a", MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"},
					HealthCheck: &v1alpha1.HealthCheck{URL: "http://origin.test/", Interval: v1alpha1.NewDuration(24 * time.Hour), Timeout: v1alpha1.NewDuration(time.Second)},
				},
			})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	count := func(status metav1.ConditionStatus, reason string) (n int) {
		list := &v1alpha1.ProxyList{}
		if err := x.c.List(t.Context(), list, client.InNamespace(x.ns)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if c := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionProvisioned); c != nil && c.Status == status && c.Reason == reason {
				n++
			}
		}
		return n
	}
	untilWithin(t, 2*time.Minute, "all wait for the entry", func() bool {
		return count(metav1.ConditionFalse, v1alpha1.ReasonProviderNotConfigured) == proxies
	})
	began := time.Now()
	x.publish(providersOf(strings.Replace(x.entry("late", "project-a", ""), emulator.URL, front.URL, 1)))
	untilWithin(t, 3*time.Minute, "all are created", func() bool { return count(metav1.ConditionTrue, v1alpha1.ReasonCreated) == proxies })
	took := time.Since(began)

	g.mu.Lock()
	defer g.mu.Unlock()
	perSecond, most := map[int64]int{}, 0
	for _, at := range g.inserts {
		perSecond[at.Unix()]++
		most = max(most, perSecond[at.Unix()])
	}
	spread := g.inserts[len(g.inserts)-1].Sub(g.inserts[0])
	t.Logf("%d creations within %s, spread over %s, at most %d a second and %d requests in flight", len(g.inserts), took.Round(time.Second), spread.Round(100*time.Millisecond), most, g.most)
	if len(g.inserts) != proxies || g.most > 4 || spread < 10*time.Second {
		t.Errorf("%d creations, %d requests in flight, spread over %s; want %d, at most 4, at least 10s", len(g.inserts), g.most, spread, proxies)
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}
