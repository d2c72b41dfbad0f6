package manifests

import (
	"context"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestMakeTokenSecret: the token is one that the operator takes, is shown nowhere, and is never written over.
func TestMakeTokenSecret(t *testing.T) {
	c := newClient(t, config)
	must(t, client.IgnoreAlreadyExists(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}})))
	tokens := map[string]bool{}
	for _, namespace := range []string{system, newNamespace(t, c)} {
		var args []string
		if namespace != system {
			args = append(args, "NAMESPACE="+namespace)
		}
		said, err := makeTarget(t, "token-secret", args...)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		s := &corev1.Secret{}
		must(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: tokenSecret}, s))
		t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), s) })
		made := string(s.Data["token"])
		if !regexp.MustCompile(`^[0-9a-f]{48}$`).MatchString(made) || tokens[made] || len(s.Data) != 1 {
			t.Errorf("%d keys, a token of %d characters, the same as before: %v", len(s.Data), len(made), tokens[made])
		}
		tokens[made] = true
		again, err := makeTarget(t, "token-secret", args...)
		if err == nil || !strings.Contains(again, "already exists") {
			t.Errorf("a second time: %v, %s", err, again)
		}
		now := &corev1.Secret{}
		must(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), now))
		if now.ResourceVersion != s.ResourceVersion || len(now.Annotations) > 0 || strings.Contains(said+again, made) {
			t.Errorf("changed: %v, annotations %v, shown: %v", now.ResourceVersion != s.ResourceVersion, now.Annotations, strings.Contains(said+again, made))
		}
	}
	if said, err := makeTarget(t, "token-secret", "NAMESPACE=that-is-not-there"); err == nil || !strings.Contains(said, "that-is-not-there") {
		t.Errorf("without the namespace: %v, %s", err, said)
	}
}
