package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// sentinel is part of every value below: it must never be seen in an error.
const sentinel = "SENTINEL"

func secret(username, password string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "creds", UID: "s1", Labels: map[string]string{v1alpha1.LabelProxyAuth: "true"}},
		Type:       corev1.SecretTypeBasicAuth,
		Data:       map[string][]byte{"username": []byte(username), "password": []byte(password)},
	}
}

func TestCredentialsFromSecret(t *testing.T) {
	const user, pass = "user-" + sentinel, "pass-" + sentinel
	long := strings.Repeat("x", fleet.MaxCredentialBytes-len(sentinel)) + sentinel
	for _, tc := range []struct {
		name           string
		user, password string
		change         func(*corev1.Secret)
		want           string // part of the error; empty for none
	}{
		{name: "good", user: user, password: pass},
		{name: "colon in the password", user: user, password: "a:b"},
		{name: "as long as allowed", user: long, password: long},
		{name: "other bytes", user: "ü \t" + sentinel, password: "\x01" + sentinel},
		{name: "no label", user: user, password: pass, change: func(s *corev1.Secret) { s.Labels = nil }, want: v1alpha1.LabelProxyAuth},
		{name: "label with another value", user: user, password: pass, change: func(s *corev1.Secret) { s.Labels[v1alpha1.LabelProxyAuth] = "yes" }, want: v1alpha1.LabelProxyAuth},
		{name: "opaque", user: user, password: pass, change: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, want: `type "Opaque"`},
		{name: "no type", user: user, password: pass, change: func(s *corev1.Secret) { s.Type = "" }, want: `type ""`},
		{name: "no data", user: user, password: pass, change: func(s *corev1.Secret) { s.Data = nil }, want: `no key "username"`},
		{name: "no user", user: user, password: pass, change: func(s *corev1.Secret) { delete(s.Data, "username") }, want: `no key "username"`},
		{name: "no password", user: user, password: pass, change: func(s *corev1.Secret) { delete(s.Data, "password") }, want: `no key "password"`},
		{name: "empty user", password: pass, want: `key "username" is empty`},
		{name: "empty password", user: user, want: `key "password" is empty`},
		{name: "colon in the user", user: "a:" + sentinel, password: pass, want: `key "username" contains a ':'`},
		{name: "newline after the user", user: user + "\n", password: pass, want: `key "username" contains a line break`},
		{name: "newline after the password", user: user, password: pass + "\n", want: `key "password" contains a line break`},
		{name: "carriage return", user: user, password: pass + "\r", want: `key "password" contains a line break`},
		{name: "header injection", user: user, password: "x\r\nHost: " + sentinel, want: `key "password" contains a line break`},
		{name: "NUL", user: user, password: "x\x00" + sentinel, want: `key "password" contains`},
		{name: "user too long", user: "x" + long, password: pass, want: `key "username" is 1025 bytes`},
		{name: "password too long", user: user, password: "x" + long, want: `key "password" is 1025 bytes`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := secret(tc.user, tc.password)
			if tc.change != nil {
				tc.change(s)
			}
			got, err := fleet.CredentialsFromSecret(s)
			if tc.want == "" {
				if err != nil || got.Username != tc.user || got.Password != tc.password || len(got.Revision) != 16 {
					t.Fatalf("got %v, %v", got, err)
				}
				if text := fmt.Sprintf("%v %+v %#v %s", got, got, *got, got.Revision); strings.Contains(text, sentinel) {
					t.Errorf("formatting shows a value: %s", text)
				}
				return
			}
			if err == nil || got != nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), `"creds"`) {
				t.Fatalf("got %v, error %v; want one that names the Secret and says %s", got, err, tc.want)
			}
			if strings.Contains(err.Error(), sentinel) {
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

func TestCredentialRevision(t *testing.T) {
	of := func(s *corev1.Secret) string {
		t.Helper()
		c, err := fleet.CredentialsFromSecret(s)
		must(t, err)
		return c.Revision
	}
	same := secret("ab", "c")
	same.ResourceVersion, same.Annotations = "7", map[string]string{"touched": "yes"}
	same.Data["note"] = []byte("more")
	if of(secret("ab", "c")) != of(same) {
		t.Error("the revision changes with something that is no credential")
	}
	seen := map[string]string{}
	for _, pair := range [][2]string{{"ab", "c"}, {"a", "bc"}, {"ab", "C"}, {"c", "ab"}, {"ab", "cc"}} {
		r := of(secret(pair[0], pair[1]))
		if other, ok := seen[r]; ok {
			t.Errorf("%v has the revision of %s", pair, other)
		}
		seen[r] = fmt.Sprint(pair)
	}
	other := secret("ab", "c")
	other.UID = "s2"
	if of(other) == of(secret("ab", "c")) {
		t.Error("equal values in two Secrets can be told by their revision")
	}
}
