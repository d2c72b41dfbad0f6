//go:build e2e

package kubernetes

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDestinationsAreRefused tries to get from a leased proxy into the cluster.
func TestDestinationsAreRefused(t *testing.T) {
	f := newFleet(t)
	f.proxy("a")
	p, _ := f.isReady("a", 1)
	l := f.lease(f.crawler(), "a")
	f.crawls(t, l)
	service, err := f.kube.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	must(t, err)
	nodes, err := f.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	operator, err := f.leader(t.Context())
	must(t, err)
	refused := []string{
		"http://127.0.0.1:" + fmt.Sprint(p.Status.Port), "http://[::1]:8080", "http://localhost:8080",
		"http://169.254.169.254/latest/meta-data/", "https://169.254.169.254",
		"https://" + service.Spec.ClusterIP, "http://" + service.Spec.ClusterIP + ":443",
		"http://" + operator, "https://" + nodes.Items[0].Status.Addresses[0].Address + ":10250",
		"http://" + f.pod(p).Status.PodIP + ":" + fmt.Sprint(p.Status.Port),
		"http://2130706433/", "http://0x7f.1/", // loopback in other spellings
	}
	for _, destination := range refused {
		status, _, err := f.fetch(f.browser(l.HTTPProxy), destination)
		if u, _ := url.Parse(destination); u.Scheme == "https" {
			// The answer to CONNECT is an error of the transport.
			if err == nil || !strings.Contains(err.Error(), "Forbidden") {
				t.Errorf("CONNECT to %s: %d, %v; want it refused", destination, status, err)
			}
			continue
		}
		if err != nil || status != http.StatusForbidden && !strings.Contains(destination, "localhost") && !strings.Contains(destination, "2130706433") && !strings.Contains(destination, "0x7f") {
			t.Errorf("%s: %d, %v; want 403", destination, status, err)
		}
		if status == http.StatusOK || status == http.StatusNoContent {
			t.Errorf("%s: %d, it was let through", destination, status)
		}
	}
	proved(t, "a proxy refuses %d ways into the node, the cluster and the metadata service, and carries requests to the website", len(refused))
}
