package manifests

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestHTTPSAndNamedTokens: with both components and their Secrets the operator speaks TLS with that certificate and knows those
// tokens, beside the one that sees everything.
func TestHTTPSAndNamedTokens(t *testing.T) {
	c := newClient(t, config)
	o := kustomizeWith(t, "components/discovery-tls", "components/named-tokens")
	o.install(t, c)
	check(t, c, true, granted())
	cert, key := pair(t)
	for name, data := range map[string]map[string]string{
		"egress-proxies-discovery-tls": {"tls.crt": cert, "tls.key": key},
		"egress-proxies-tokens":        {"tokens.yaml": "tokens:\n- name: shop-crawler\n  token: 0123456789abcdef0123\n"},
	} {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}, StringData: data}
		must(t, c.Create(t.Context(), s))
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), s) })
	}
	op := start(t, c, o, "providers: []\n")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(cert)) {
		t.Fatal("no certificate")
	}
	own := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}}
	ask := func(token string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+op.api+"/v1/proxies", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := own.Do(req)
		if err != nil {
			return 0
		}
		must(t, res.Body.Close())
		return res.StatusCode
	}
	until(t, "the API over HTTPS", func() bool { return ask(token) == http.StatusOK })
	if got := ask("0123456789abcdef0123"); got != http.StatusOK {
		t.Errorf("the crawler's own token: %d", got)
	}
	if got := ask("0123456789abcdef0124"); got != http.StatusUnauthorized {
		t.Errorf("another one: %d", got)
	}
	if p := find[corev1.Service](t, o, "Service", "egress-proxies-discovery").Spec.Ports; len(p) != 1 || p[0].Name != "https" || p[0].TargetPort.String() != "discovery" {
		t.Errorf("the Service has %+v", p)
	}
	op.stop(t)
}

// TestThePolicyIsForTheOperatorsPorts: it selects the operator's Pods, opens the ports that others have a reason to reach, by the
// names that they have, and each to labelled namespaces alone.
func TestThePolicyIsForTheOperatorsPorts(t *testing.T) {
	o := kustomizeWith(t, "components/network-policy")
	p := find[networkingv1.NetworkPolicy](t, o, "NetworkPolicy", name)
	if s, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector); err != nil || !s.Matches(labels.Set(o.pod(t, "x").Labels)) || s.Empty() {
		t.Errorf("it selects %v, %v", s, err)
	}
	if !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		t.Errorf("it is about %v", p.Spec.PolicyTypes)
	}
	opened := map[string]bool{"probes": true}
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			opened[port.Port.String()] = true
		}
		if len(rule.From) != 1 || rule.From[0].NamespaceSelector == nil || len(rule.From[0].NamespaceSelector.MatchLabels) == 0 || len(rule.Ports) == 0 {
			t.Errorf("a rule is for %+v", rule)
		}
	}
	for _, port := range o.container(t).Ports {
		if !opened[port.Name] {
			t.Errorf("nobody reaches port %s", port.Name)
		}
		delete(opened, port.Name)
	}
	if len(opened) > 0 {
		t.Errorf("opened are %v, which the Pod has not", opened)
	}
}

// TestTwoReplicasCanBeEvictedInTurn: the budget is for the operator's Pods and lets one go, even of one.
func TestTwoReplicasCanBeEvictedInTurn(t *testing.T) {
	o := kustomizeWith(t, "components/high-availability")
	b := find[policyv1.PodDisruptionBudget](t, o, "PodDisruptionBudget", name)
	if s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector); err != nil || !s.Matches(labels.Set(o.pod(t, "x").Labels)) || s.Empty() {
		t.Errorf("it selects %v, %v", s, err)
	}
	if d := o.deployment(t); *d.Spec.Replicas != 2 || b.Spec.MaxUnavailable.IntValue() != 1 || b.Spec.MinAvailable != nil {
		t.Errorf("%d replicas, the budget %+v", *d.Spec.Replicas, b.Spec)
	}
}

// TestTheChartsPassTheirLinter, and can be packaged.
func TestTheChartsPassTheirLinter(t *testing.T) {
	if said, err := makeTarget(t, "charts", "VERSION=v1.2.3", "DIST="+t.TempDir()); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
