package manifests

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditLog is where the API server writes down what the operator's account asks of it.
var auditLog string

// audit has an API server that is not started yet write down every request of the operator's account, and no other.
func audit(env *envtest.Environment, dir string) error {
	policy := filepath.Join(dir, "policy.yaml")
	text := fmt.Sprintf("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- {level: Metadata, users: [%q]}\n- level: None\n", account)
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		return err
	}
	auditLog = filepath.Join(dir, "audit.log")
	env.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", auditLog)
	return nil
}

// request is one that the account has made.
type request struct {
	Verb      string
	ObjectRef struct{ Resource, Subresource, Namespace, Name, APIGroup string }
	// Code is 0 for a watch that has begun.
	ResponseStatus struct{ Code int }
	RequestURI     string
}

// requestsFrom reads what was asked since the log had a size, and its size by now.
func requestsFrom(t *testing.T, at int64) (out []request, size int64) {
	t.Helper()
	f, err := os.Open(auditLog)
	if os.IsNotExist(err) {
		return nil, 0
	}
	must(t, err)
	defer f.Close()
	_, err = f.Seek(at, io.SeekStart)
	must(t, err)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return out, at
		}
		must(t, err)
		at += int64(len(line))
		var q request
		must(t, json.Unmarshal(line, &q))
		out = append(out, q)
	}
}

// grant is one verb on one resource by one binding.
type grant struct {
	binding   string
	namespace string // "" for all
	verb      string
	group     string
	resource  string
	names     []string
}

func (g grant) String() string {
	return fmt.Sprintf("%s: %s %s.%s %q in namespace %q", g.binding, g.verb, g.resource, g.group, g.names, g.namespace)
}

func (g grant) allows(q request) bool {
	resource := q.ObjectRef.Resource
	if q.ObjectRef.Subresource != "" {
		resource += "/" + q.ObjectRef.Subresource
	}
	return g.verb == q.Verb && g.group == q.ObjectRef.APIGroup && g.resource == resource &&
		(g.namespace == "" || g.namespace == q.ObjectRef.Namespace) && (len(g.names) == 0 || slices.Contains(g.names, q.ObjectRef.Name))
}

// grants are all that the objects give to the operator's account, and the names of roles that they give to nobody of it.
func (o objects) grants(t *testing.T) (out []grant, others []string) {
	t.Helper()
	roles := map[string][]rbacv1.PolicyRule{}
	for _, u := range o {
		if k := u.GetKind(); k == "Role" || k == "ClusterRole" {
			role := &rbacv1.Role{}
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, role))
			roles[k+" "+u.GetName()] = role.Rules
			others = append(others, k+" "+u.GetName())
		}
	}
	for _, u := range o {
		if k := u.GetKind(); k != "RoleBinding" && k != "ClusterRoleBinding" {
			continue
		}
		b := &rbacv1.RoleBinding{}
		must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, b))
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == name && s.Namespace == system }) {
			continue
		}
		role := b.RoleRef.Kind + " " + b.RoleRef.Name
		others = slices.DeleteFunc(others, func(r string) bool { return r == role })
		for _, r := range roles[role] {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						out = append(out, grant{u.GetKind() + " " + u.GetName() + " of " + role, u.GetNamespace(), verb, group, resource, r.ResourceNames})
					}
				}
			}
		}
	}
	// A request is by the narrowest grant that allows it: what a role in one namespace gives need not be given everywhere.
	slices.SortStableFunc(out, func(a, b grant) int {
		if (a.namespace == "") == (b.namespace == "") {
			return 0
		} else if a.namespace == "" {
			return 1
		}
		return -1
	})
	return out, others
}
