package manifests

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// release installs the operator's chart into the cluster as whoever follows docs/install.md does.
func release(t *testing.T, c client.Client, args ...string) {
	t.Helper()
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})))
	// What kustomizations of other tests have left, which is not this release's.
	for _, u := range kustomize(t, "default") {
		if k := u.GetKind(); k != "Namespace" && k != "CustomResourceDefinition" {
			must(t, client.IgnoreNotFound(c.Delete(t.Context(), u)))
		}
	}
	t.Cleanup(func() {
		mustHelm(t, "uninstall", name, "--ignore-not-found")
		_ = c.Delete(context.WithoutCancel(t.Context()), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: tokenSecret}})
	})
	mustHelm(t, append([]string{"upgrade", "--install", name, operatorChart}, args...)...)
}

const tokenSecret = "egress-proxies-discovery"

func tokenOf(t *testing.T, c client.Client) string {
	t.Helper()
	s := &corev1.Secret{}
	must(t, c.Get(t.Context(), client.ObjectKey{Namespace: system, Name: tokenSecret}, s))
	return string(s.Data["token"])
}

// TestARelease: installed, upgraded, uninstalled and installed again, the token is one and the same; the operator works with the
// rights of the chart; nothing else stays.
func TestARelease(t *testing.T) {
	c := newClient(t, config)
	release(t, c)
	made := tokenOf(t, c)
	if len(made) < 32 {
		t.Errorf("the token has %d characters", len(made))
	}
	mustHelm(t, "upgrade", name, operatorChart, "--set", "replicas=2", "--set", "providers.kubernetes.enabled=true")
	o := decode(t, mustHelm(t, "get", "manifest", name))
	if tokenOf(t, c) != made {
		t.Error("the upgrade has made another token")
	}
	check(t, c, true, append(granted(), forPods("anywhere")...))
	check(t, c, false, refused())
	op := start(t, c, o, "providers: []\n")
	until(t, "the API", func() bool { code, _ := get(t, "http://"+op.api+"/v1/proxies"); return code == 200 })
	until(t, "metrics", func() bool { code, _ := scrape(t, op.metrics, op.scraper); return code == 200 })
	if refused, done := op.refusals(t); len(refused) > 0 || len(done) == 0 {
		t.Errorf("refused: %q\ngranted: %q", refused, done)
	}
	op.stop(t)

	mustHelm(t, "uninstall", name)
	for _, u := range o {
		now := u.DeepCopy()
		err := c.Get(t.Context(), client.ObjectKeyFromObject(u), now)
		if kept := u.GetKind() == "Secret"; kept != (err == nil) || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s %s after the end of the release: %v", u.GetKind(), u.GetName(), err)
		}
	}
	mustHelm(t, "install", name, operatorChart)
	if tokenOf(t, c) != made {
		t.Error("another installation has made another token")
	}
}

// TestTheChartTakesATokenThatIsThere, by whomever it was made, and leaves it alone.
func TestTheChartTakesATokenThatIsThere(t *testing.T) {
	c := newClient(t, config)
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})))
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: tokenSecret}, StringData: map[string]string{"token": "of-my-own-making"}}
	must(t, c.Create(t.Context(), mine))
	release(t, c)
	mustHelm(t, "upgrade", name, operatorChart)
	mustHelm(t, "uninstall", name)
	now := &corev1.Secret{}
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(mine), now))
	if now.UID != mine.UID || string(now.Data["token"]) != "of-my-own-making" || len(now.Labels) > 0 {
		t.Errorf("it is now %v", now.ObjectMeta)
	}
	must(t, c.Patch(t.Context(), now, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"token":null,"tokn":"eA=="}}`))))
	_, said, err := helm(t, "install", name, operatorChart)
	if err == nil || !strings.Contains(said, "the Secret egress-proxies-system/egress-proxies-discovery has no key token") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestTheDefinitionsSurviveTheirRelease: with the objects. Definitions that were applied before, as those here, are taken over.
func TestTheDefinitionsSurviveTheirRelease(t *testing.T) {
	c := newClient(t, config)
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})))
	p := proxy(newNamespace(t, c), "none")
	must(t, c.Create(t.Context(), p))
	mustHelm(t, "upgrade", "--install", "egress-proxies-crds", crdsChart, "--take-ownership")
	mustHelm(t, "upgrade", "--install", "egress-proxies-crds", crdsChart)
	mustHelm(t, "uninstall", "egress-proxies-crds")
	for _, u := range kustomize(t, "crd") {
		now := u.DeepCopy()
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), now); err != nil {
			t.Fatalf("after the end of the release: %v", err)
		}
		want, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
		must(t, err)
		if got, _, err := unstructured.NestedSlice(now.Object, "spec", "versions"); err != nil || len(got) != len(want) || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s: %v, %v", u.GetName(), err, now.GetDeletionTimestamp())
		}
	}
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(p), p))
}
