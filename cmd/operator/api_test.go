package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// crawler asks an operator's API under a token.
type crawler struct {
	t     *testing.T
	at    *operatorProcess
	token string
}

func (p *operatorProcess) crawler(t *testing.T, token string) crawler { return crawler{t, p, token} }

// reply is what is looked at of an answer; its status is 0 when there was none.
type reply struct {
	status                int
	Error, LeaseID, Epoch string
	Considered, Unhealthy int
	Proxy                 named
	Proxies               []named
}

type named struct{ Namespace, Name string }

func (c crawler) get(path string) reply { return c.send(http.MethodGet, path, "", "") }

// lease asks for one under an idempotency key, if there is one.
func (c crawler) lease(key, body string) reply {
	return c.send(http.MethodPost, "/v1/leases", key, body)
}

func (c crawler) send(method, path, key, body string) (out reply) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.at.api+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &out); err != nil {
			c.t.Fatalf("%s %s: %q: %v", method, path, data, err)
		}
	}
	out.status = res.StatusCode
	return out
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	untilWithin(t, 40*time.Second, what, done)
}

func untilWithin(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, limit, true, func(context.Context) (bool, error) {
		return done(), nil
	})
	if err != nil {
		t.Fatalf("not within %s: %s", limit, what)
	}
}

// cluster is a client for the control plane.
func cluster(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(apiConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newNamespace(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "binary-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return ns.Name
}

// startForwardProxy answers every request that is sent through it, and returns its endpoint.
func startForwardProxy(t *testing.T) *v1alpha1.Endpoint {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &v1alpha1.Endpoint{Host: u.Hostname(), Port: int32(port)}
}

// loopbackAllowed lets an operator probe what startForwardProxy started.
const loopbackAllowed = "--external-allow-cidrs=127.0.0.0/8"

// createExternal makes an External Proxy at e that one crawler may lease at a time, and takes it away after the test.
func createExternal(t *testing.T, c client.Client, namespace, name string, e *v1alpha1.Endpoint) {
	t.Helper()
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.ProxySpec{
			Mode: v1alpha1.ModeExternal, Endpoint: e, MaxConcurrentLeases: ptr.To[int32](1),
			HealthCheck: &v1alpha1.HealthCheck{URL: "http://origin.test/", Interval: v1alpha1.NewDuration(time.Second)},
		},
	}
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := c.Delete(ctx, p); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}
