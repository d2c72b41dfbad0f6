package manifests

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// account is the operator's service account as the API server sees it.
const account = "system:serviceaccount:" + system + ":" + name

// right is "<verb> <resource>[.<group>][/<subresource>][ <object's name>]" in a namespace; in all of them when that is
// empty.
type right struct{ what, namespace string }

// may asks the API server whether the operator has the right.
func may(t *testing.T, c client.Client, r right) bool {
	t.Helper()
	a := &authorizationv1.ResourceAttributes{Namespace: r.namespace}
	fields := strings.Fields(r.what)
	if len(fields) == 3 {
		a.Name = fields[2]
	}
	a.Verb = fields[0]
	a.Resource, a.Subresource, _ = strings.Cut(fields[1], "/")
	a.Resource, a.Group, _ = strings.Cut(a.Resource, ".")
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"}, ResourceAttributes: a,
	}}
	must(t, c.Create(t.Context(), review))
	return review.Status.Allowed
}

// everywhere are rights in a namespace, or in all.
func everywhere(namespace string, whats ...string) (out []right) {
	for _, w := range whats {
		out = append(out, right{w, namespace})
	}
	return out
}

// granted is what the operator does without a provider for Pods; see the markers beside the code.
func granted() []right {
	return append(everywhere("",
		"get proxies.crawl.example.com x", "list proxies.crawl.example.com", "watch proxies.crawl.example.com", "patch proxies.crawl.example.com x",
		"patch proxies.crawl.example.com/status x", "list secrets", "watch secrets", "get namespaces kube-system",
		"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io",
		"create events.events.k8s.io", "patch events.events.k8s.io x",
	), everywhere(system, "list pods", "patch pods x", "create leases.coordination.k8s.io", "get leases.coordination.k8s.io "+name, "update leases.coordination.k8s.io "+name)...)
}

// refused is what it never does.
func refused() []right {
	return append(everywhere("",
		"create proxies.crawl.example.com", "update proxies.crawl.example.com x", "delete proxies.crawl.example.com x", "deletecollection proxies.crawl.example.com",
		"update proxies.crawl.example.com/status x", "watch namespaces", "create namespaces", "list nodes", "list configmaps", "create pods/exec",
		"get pods/log", "impersonate users", "create serviceaccounts/token", "bind clusterroles.rbac.authorization.k8s.io",
		"escalate clusterroles.rbac.authorization.k8s.io", "create clusterrolebindings.rbac.authorization.k8s.io", "*  *.*",
	), everywhere(system, "list configmaps", "create rolebindings.rbac.authorization.k8s.io", "patch deployments.apps x", "delete leases.coordination.k8s.io "+name,
		"update leases.coordination.k8s.io another", "create pods/exec", "create serviceaccounts/token "+name)...)
}

// forPods is what the provider kubernetes does in the namespaces of its entries, and whose name a namespace is.
func forPods(namespace string) []right {
	return append(everywhere(namespace,
		"get pods x", "list pods", "watch pods", "create pods", "patch pods x", "delete pods x", "get secrets x", "create secrets", "update secrets x",
		"delete secrets x", "list resourcequotas",
	), right{"get namespaces " + namespace, namespace})
}

// check expects all rights to be granted, or none. The authorizer learns of roles by watching them, hence the wait.
func check(t *testing.T, c client.Client, want bool, rights []right) {
	t.Helper()
	var other []right
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		other = slices.DeleteFunc(slices.Clone(rights), func(r right) bool { return may(t, c, r) == want })
		return len(other) == 0, nil
	})
	if err != nil {
		t.Errorf("granted is %v of %q", !want, other)
	}
}

func TestRights(t *testing.T) {
	c := newClient(t, config)
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "crawling"}})))
	for _, s := range []struct {
		dir      string
		grants   [][]right
		withheld [][]right
	}{
		{"default", [][]right{granted()}, [][]right{
			refused(), forPods("crawling"), everywhere(system, "get pods x", "create pods", "delete pods x", "get secrets x", "update secrets x"),
		}},
		{"samples/overlay", [][]right{granted(), forPods("crawling")}, [][]right{refused()}},
		{"samples/overlay-gcp", [][]right{granted()}, [][]right{refused(), forPods("crawling"), everywhere(system, "get secrets gcp-credentials")}},
		// Hypervisors take no rights in the cluster: the Secret is mounted, not read.
		{"samples/overlay-kvm", [][]right{granted()}, [][]right{refused(), forPods("crawling"), everywhere(system, "get secrets kvm-ssh")}},
		{"samples/overlay-one-namespace", [][]right{granted(), forPods(podsOnly)}, [][]right{refused(), forPods("crawling"), everywhere("", "create pods", "update secrets x")}},
	} {
		t.Run(s.dir, func(t *testing.T) {
			install(t, c, s.dir)
			check(t, c, true, slices.Concat(s.grants...))
			check(t, c, false, slices.Concat(s.withheld...))
		})
	}
}
