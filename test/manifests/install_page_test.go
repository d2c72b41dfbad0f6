package manifests

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

// TestTheWaysOfThePage follows each from an empty cluster to an empty cluster.
func TestTheWaysOfThePage(t *testing.T) {
	for _, way := range []string{"With Helm", "With kustomize"} {
		t.Run(way, func(t *testing.T) {
			env, err := controlplane.New(t.Context())
			must(t, err)
			env.CRDDirectoryPaths = nil
			cfg, err := env.Start()
			must(t, err)
			t.Cleanup(func() { must(t, env.Stop()) })
			c := newClient(t, cfg)
			finalize(t, c)
			all := commands(t, way)
			end := slices.IndexFunc(all, func(c string) bool { return strings.HasPrefix(c, "kubectl delete proxies ") })
			if end < 0 {
				t.Fatalf("nothing is removed by %q", all)
			}
			r := newReader(t, kubeconfigFor(t, cfg))
			r.follow(all[:end])
			d := &appsv1.Deployment{}
			must(t, c.Get(t.Context(), client.ObjectKey{Namespace: system, Name: name}, d))
			token := &corev1.Secret{}
			must(t, c.Get(t.Context(), client.ObjectKey{Namespace: system, Name: tokenSecret}, token))
			if len(token.Data["token"]) < 16 {
				t.Error("no token")
			}
			proxies := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "crawl.example.com/v1alpha1", Kind: "ProxyList"}}
			must(t, c.List(t.Context(), proxies))
			if len(proxies.Items) != 1 {
				t.Errorf("%d Proxies", len(proxies.Items))
			}
			ns := &corev1.Namespace{}
			must(t, c.Get(t.Context(), client.ObjectKey{Name: system}, ns))
			if ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
				t.Errorf("the namespace is labelled %v", ns.Labels)
			}
			r.follow(all[end:])
			empty(t, c)
		})
	}
	t.Run("the rest", func(t *testing.T) {
		c := newClient(t, config)
		install(t, c, "default")
		var all []string
		for _, heading := range []string{"Providers", "Tokens of crawlers' own", "HTTPS", "Who reaches it", "From one way to the other"} {
			all = append(all, commands(t, heading)...)
		}
		for _, ns := range []string{"crawling", "monitoring"} {
			must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})))
		}
		for _, secret := range []string{sshSecret, "gcp-credentials", "egress-proxies-tokens", "egress-proxies-discovery-tls"} {
			s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: secret}}
			t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), s) })
		}
		newReader(t, adminKubeconfig(t)).follow(all)
		mustHelm(t, "uninstall", "egress-proxies-crds")
	})
	both := append(commands(t, "With Helm"), commands(t, "With kustomize")...)
	for _, n := range needNodes {
		if !slices.ContainsFunc(both, func(c string) bool { return strings.Contains(c, n) }) {
			t.Errorf("no command has %q any more", n)
		}
	}
}

// finalize does what a namespace needs of the controller manager to go.
func finalize(t *testing.T, c client.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			var list corev1.NamespaceList
			if c.List(ctx, &list) != nil {
				continue
			}
			for i := range list.Items {
				if ns := &list.Items[i]; ns.DeletionTimestamp != nil {
					ns.Spec.Finalizers = nil
					_ = c.SubResource("finalize").Update(ctx, ns)
				}
			}
		}
	}()
}

// empty fails when anything is left that is in no namespace.
func empty(t *testing.T, c client.Client) {
	t.Helper()
	for _, kind := range []string{
		"apiextensions.k8s.io/v1 CustomResourceDefinition", "v1 Namespace", rbacv1.SchemeGroupVersion.String() + " ClusterRole", rbacv1.SchemeGroupVersion.String() + " ClusterRoleBinding",
	} {
		version, kind, _ := strings.Cut(kind, " ")
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind + "List"}}
		must(t, c.List(t.Context(), list))
		for _, o := range list.Items {
			if strings.Contains(o.Name, "egress") || strings.Contains(o.Name, "crawl.example.com") {
				t.Errorf("left is %s %s", kind, o.Name)
			}
		}
	}
}

// TestThePageHasEveryValue: each of values.yaml is in the table, and nothing else is.
func TestThePageHasEveryValue(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, operatorChart, "values.yaml"))
	must(t, err)
	var values map[string]any
	must(t, yaml.Unmarshal(data, &values))
	want := map[string]bool{}
	// What is a map of the user's own, or of Kubernetes', is one value.
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, ok := v.(map[string]any)
		if !ok || len(m) == 0 || path == "resources" || path == "nodeSelector" || strings.HasSuffix(path, ".labels") || path == "networkPolicy.crawlers" || path == "networkPolicy.monitoring" {
			want[path] = true
			return
		}
		for key, inner := range m {
			walk(strings.TrimPrefix(path+"."+key, "."), inner)
		}
	}
	walk("", values)
	_, table, _ := strings.Cut(page(t), "\n### Values\n")
	table, _, _ = strings.Cut(table, "\n### ")
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+`) \\|").FindAllStringSubmatch(table, -1) {
		for _, path := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if !want[path[1]] {
				t.Errorf("the page has %s, the chart has not", path[1])
			}
			delete(want, path[1])
		}
	}
	for path := range want {
		t.Errorf("the page has no %s", path)
	}
}
