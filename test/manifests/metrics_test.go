package manifests

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// accountWith returns a token of a new service account, which is bound to the cluster roles.
func accountWith(t *testing.T, c client.Client, roles ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{GenerateName: "scraper-", Namespace: newNamespace(t, c)}}
	must(t, c.Create(t.Context(), account))
	for _, role := range roles {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "scraper-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		}
		must(t, c.Create(t.Context(), binding))
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), binding) })
	}
	request := &authenticationv1.TokenRequest{}
	must(t, c.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// scraper returns the token of whom the manifests let see metrics.
func scraper(t *testing.T, c client.Client) string {
	t.Helper()
	return accountWith(t, c, "egress-proxies-metrics-reader")
}

// scrape asks for metrics with a token, or without one when it is empty. The certificate is the operator's own.
func scrape(t *testing.T, address, token string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	must(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	res, err := own.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(text)
}

// TestMetricsAreForThoseWhoMaySeeThem: nobody else, and not over HTTP.
func TestMetricsAreForThoseWhoMaySeeThem(t *testing.T) {
	c := newClient(t, config)
	o := install(t, c, "default")
	check(t, c, true, granted())
	op := start(t, c, o, "providers: []\n")
	until(t, "metrics", func() bool { code, _ := scrape(t, op.metrics, op.scraper); return code == http.StatusOK })
	for who, presented := range map[string]string{
		"nobody": "", "somebody without a right": accountWith(t, c), "a forged token": op.scraper + "x", "a crawler": token,
	} {
		want := http.StatusUnauthorized
		if who == "somebody without a right" {
			want = http.StatusForbidden
		}
		if code, body := scrape(t, op.metrics, presented); code != want || len(body) > 200 {
			t.Errorf("%s: %d %.200s, want %d", who, code, body, want)
		}
	}
	if code, body := get(t, "http://"+op.metrics+"/metrics"); code == http.StatusOK {
		t.Errorf("over HTTP: %d %.200s", code, body)
	}
	if strings.Contains(op.log.String(), `"level":"error"`) {
		t.Error("strangers fill the log")
	}
	for line := range strings.Lines(op.log.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("a line that is no JSON: %s", line)
		}
	}
}
