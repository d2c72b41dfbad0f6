package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// amounts are the hard limits of a quota, or what of it is used.
func amounts(of map[corev1.ResourceName]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, value := range of {
		out[name] = resource.MustParse(value)
	}
	return out
}

type amount = map[corev1.ResourceName]string

// quota makes one, with the status that the controller manager would write.
func (w *world) quota(name string, hard, used amount, scopes ...corev1.ResourceQuotaScope) {
	w.t.Helper()
	api := w.kube.CoreV1().ResourceQuotas(w.namespace)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(hard), Scopes: scopes}}
	q, err := api.Create(context.Background(), q, metav1.CreateOptions{})
	must(w.t, err)
	q.Status = corev1.ResourceQuotaStatus{Hard: amounts(hard), Used: amounts(used)}
	_, err = api.UpdateStatus(context.Background(), q, metav1.UpdateOptions{})
	must(w.t, err)
}

// TestCheckSaysHowMuchRoomThereIs.
func TestCheckSaysHowMuchRoomThereIs(t *testing.T) {
	type quota struct {
		hard, used amount
		scopes     []corev1.ResourceQuotaScope
	}
	for _, tc := range []struct {
		name   string
		quotas []quota
		want   string
	}{
		{"no quota", nil, ""},
		{"a quota", []quota{{hard: amount{"pods": "10"}, used: amount{"pods": "7"}}}, "3 Pods left"},
		{"nothing used", []quota{{hard: amount{"pods": "10"}}}, "10 Pods left"},
		{"full", []quota{{hard: amount{"pods": "10"}, used: amount{"pods": "10"}}}, "0 Pods left"},
		{"lowered since", []quota{{hard: amount{"pods": "10"}, used: amount{"pods": "12"}}}, "0 Pods left"},
		{"in thousands", []quota{{hard: amount{"pods": "2k"}, used: amount{"pods": "1"}}}, "1999 Pods left"},
		{"of objects", []quota{{hard: amount{"count/pods": "5"}, used: amount{"count/pods": "1"}}}, "4 Pods left"},
		{"of both kinds", []quota{{hard: amount{"pods": "9", "count/pods": "5"}, used: amount{"pods": "1", "count/pods": "3"}}}, "2 Pods left"},
		{"several", []quota{{hard: amount{"pods": "9"}}, {hard: amount{"pods": "6"}}, {hard: amount{"pods": "8"}}}, "6 Pods left"},
		{"of other things", []quota{{hard: amount{"requests.cpu": "1"}, used: amount{"requests.cpu": "1"}}}, ""},
		{"of some Pods only", []quota{{hard: amount{"pods": "0"}, scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newT(t)
			server, err := w.kube.Discovery().ServerVersion()
			must(w.t, err)
			for i, q := range tc.quotas {
				w.quota(fmt.Sprint("q", i), q.hard, q.used, q.scopes...)
			}
			want := map[string]string{"version": server.GitVersion}
			if tc.want != "" {
				want["quota/"+w.namespace] = tc.want
			}
			if s := checked(t.Context(), t, w.provider()); !s.Ready || !maps.Equal(s.Details, want) {
				t.Errorf("the check says %+v, want details %v", s, want)
			}
		})
	}
}

// TestQuotasAreNotNeeded: who may not read them, or gets something else, can still create Pods.
func TestQuotasAreNotNeeded(t *testing.T) {
	for name, answer := range map[string]func(*http.Request, http.RoundTripper) (*http.Response, error){
		"403":       refuse(http.StatusForbidden, "Forbidden", "you cannot read quotas", nil),
		"500":       refuse(http.StatusInternalServerError, "", "no", nil),
		"a page":    say(http.StatusOK, "text/html", "<html>"),
		"no answer": func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errLost },
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t)
			w.quota("q", amount{"pods": "10"}, amount{"pods": "7"})
			w.wire.add(&fault{match: quotas, do: answer})
			if s := checked(t.Context(), t, w.provider()); !s.Ready || len(s.Details) != 1 || s.Details["version"] == "" {
				t.Errorf("the check says %+v", s)
			}
		})
	}
}

// TestUnreadableQuotasHideNoOthers.
func TestUnreadableQuotasHideNoOthers(t *testing.T) {
	w := newT(t)
	w.extra += fmt.Sprintf("namespaces: [default, %s]\n", w.namespace)
	w.quota("q", amount{"pods": "10"}, amount{"pods": "7"})
	w.wire.add(&fault{
		match: func(r *http.Request) bool { return quotas(r) && strings.Contains(r.URL.Path, "/namespaces/default/") },
		do:    refuse(http.StatusForbidden, "Forbidden", "you cannot read quotas", nil),
	})
	if s := checked(t.Context(), t, w.provider()); !s.Ready || len(s.Details) != 2 || s.Details["quota/"+w.namespace] != "3 Pods left" {
		t.Errorf("the check says %+v", s)
	}
}

// TestDetailsAreBounded: of many quotas those count with the least room.
func TestDetailsAreBounded(t *testing.T) {
	w := newT(t)
	w.extra += "# in every namespace\n"
	list := corev1.ResourceQuotaList{TypeMeta: metav1.TypeMeta{Kind: "ResourceQuotaList", APIVersion: "v1"}}
	want := map[string]string{}
	for i := range 40 {
		// Up and down, each three times: among those at the border (ns-01, ns-08 and ns-15) the name decides.
		room, namespace := i*17%40/3, fmt.Sprintf("ns-%02d", i)
		list.Items = append(list.Items, corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "q"},
			Status:     corev1.ResourceQuotaStatus{Hard: amounts(amount{"pods": fmt.Sprint(room)})},
		})
		if room < 5 || namespace == "ns-01" {
			want["quota/"+namespace] = fmt.Sprintf("%d Pods left", room)
		}
	}
	body, err := json.Marshal(list)
	must(t0(t), err)
	w.wire.add(&fault{match: quotas, do: say(http.StatusOK, "application/json", string(body))})
	s := checked(t.Context(), t, w.provider())
	want["version"] = s.Details["version"]
	if !s.Ready || !maps.Equal(s.Details, want) {
		t.Errorf("the check says %+v, want details %v", s, want)
	}
}

// TestCheckFindsOutWhatMayBeDone by an identity of its own, as the manifests would give it.
func TestCheckFindsOutWhatMayBeDone(t *testing.T) {
	w := newT(t)
	w.extra += "namespace: " + w.namespace + "\n"
	w.quota("q", amount{"pods": "10"}, nil)
	const user = "operator-of-the-test"
	w.config.Impersonate = rest.ImpersonationConfig{UserName: user}
	p := w.provider()
	ctx, rbac := t.Context(), w.kube.RbacV1()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "operator"}}
	role, err := rbac.Roles(w.namespace).Create(ctx, role, metav1.CreateOptions{})
	must(w.t, err)
	_, err = rbac.RoleBindings(w.namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "operator"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}},
		RoleRef:    rbacv1.RoleRef{Kind: "Role", Name: "operator", APIGroup: rbacv1.GroupName},
	}, metav1.CreateOptions{})
	must(w.t, err)
	in := "namespace " + w.namespace + ": "
	cannot := func(verb, resource string) string {
		return fmt.Sprintf(`%s%s %s: %s is forbidden: User "%s" cannot %s resource "%s" in API group "" in the namespace "%s"`,
			in, verb, resource, resource, user, verb, resource, w.namespace)
	}
	for _, step := range []struct {
		verb, resource string // granted beside what was before
		ready          bool
		message        string
	}{
		{"get", "pods", false, cannot("list", "secrets")},
		{"list", "secrets", false, cannot("list", "pods")},
		{"list", "pods", false, in + "the operator may not create secrets"},
		{"create", "secrets", false, in + "the operator may not create pods"},
		{"create", "pods", true, ""},
	} {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{Verbs: []string{step.verb}, APIGroups: []string{""}, Resources: []string{step.resource}})
		role, err = rbac.Roles(w.namespace).Update(ctx, role, metav1.UpdateOptions{})
		must(w.t, err)
		var s provider.TargetStatus
		// The API server takes a moment to know of a right.
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); must(w.t, w.wait(ctx)) {
			if s = p.Check(ctx)[0]; s.Ready == step.ready && s.Message == step.message {
				break
			}
		}
		if s = checked(ctx, t, p); s.Ready != step.ready || s.Message != step.message || !s.Ready && s.Reason != provider.CheckForbidden {
			t.Errorf("with %s %s the check says %+v, want %q", step.verb, step.resource, s, step.message)
		}
		if len(s.Details) != 1 || s.Details["version"] == "" { // quotas may not be read
			t.Errorf("details are %v", s.Details)
		}
	}
}
