//go:build e2e

package kubernetes

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	epx "github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// leader returns the address of the operator's Pod that has the lease API: the one that its Service selects.
func (c *cluster) leader(ctx context.Context) (string, error) {
	list := &corev1.PodList{}
	if err := c.client.List(ctx, list, client.InNamespace(operatorNamespace), client.HasLabels{v1alpha1.Group + "/leader"}); err != nil {
		return "", err
	}
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && ready(&p) {
			return p.Status.PodIP + ":8090", nil
		}
	}
	return "", fmt.Errorf("none of %d labelled Pods of the operator is ready", len(list.Items))
}

// crawler returns a client of the lease API.
func (f *fleet) crawler() *epx.Client {
	f.t.Helper()
	c, err := epx.New(epx.Options{
		BaseURL: "http://operator.test:8090", Token: token,
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := f.leader(ctx)
			if err != nil {
				return nil, err
			}
			return f.dial(ctx, network, address)
		}}},
	})
	must(f.t, err)
	f.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// lease gets a lease of the named Proxy, for which it waits.
func (f *fleet) lease(c *epx.Client, name string) *epx.Lease {
	f.t.Helper()
	l, err := c.Acquire(f.t.Context(), epx.Request{Namespace: f.namespace, Selector: map[string]string{"name": name}, Wait: epx.MaxWait, TTL: time.Minute})
	must(f.t, err)
	return l
}

// browser sends requests through a proxy.
func (f *fleet) browser(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		Proxy: proxy, DialContext: f.dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the website's certificate is its own
	}}
}

// as returns the proxy of a Pod under the given password, "" for none.
func as(pod *corev1.Pod, password string) func(*http.Request) (*url.URL, error) {
	u := &url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", pod.Status.PodIP, pod.Spec.Containers[0].Ports[0].ContainerPort)}
	if password != "" {
		u.User = url.UserPassword(username, password)
	}
	return http.ProxyURL(u)
}

// fetch returns the status of a request and, where the website answered, what it saw.
func (f *fleet) fetch(through *http.Client, target string) (status int, seen asked, err error) {
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		return 0, seen, err
	}
	resp, err := through.Do(req)
	if err != nil {
		return 0, seen, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(body, &seen)
	}
	return resp.StatusCode, seen, err
}

// asked is what the website says of a request.
type asked struct {
	From   string      `json:"from"`
	Header http.Header `json:"header"`
}

func (f *fleet) site() string   { return "http://" + f.targetIP + ":8080/" }
func (f *fleet) secure() string { return "https://" + f.targetIP + ":8443/" }

// crawls sends both kinds of requests through a lease and returns the address that the website saw.
func (f *fleet) crawls(t *testing.T, l *epx.Lease) (from string) {
	t.Helper()
	for _, site := range []string{f.site(), f.secure()} {
		status, seen, err := f.fetch(f.browser(l.HTTPProxy), site)
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s through the leased proxy: %d, %v", site, status, err)
		}
		for _, header := range []string{"Via", "X-Forwarded-For", "Proxy-Authorization"} {
			if v := seen.Header.Get(header); v != "" {
				t.Errorf("the website sees %s: %s", header, v)
			}
		}
		from = seen.From
	}
	return from
}
