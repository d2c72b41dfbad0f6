package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// MaxCredentialBytes bounds user name and password, each.
const MaxCredentialBytes = 1024

// CredentialsFromSecret reads the credentials of a proxy from s. Errors name the Secret and the key, never a value.
func CredentialsFromSecret(s *corev1.Secret) (*provider.Credentials, error) {
	if s.Labels[v1alpha1.LabelProxyAuth] != v1alpha1.LabelValueTrue {
		return nil, fmt.Errorf("Secret %q lacks the label %s: %q", s.Name, v1alpha1.LabelProxyAuth, v1alpha1.LabelValueTrue)
	}
	if s.Type != corev1.SecretTypeBasicAuth {
		return nil, fmt.Errorf("Secret %q has type %q, want %q", s.Name, s.Type, corev1.SecretTypeBasicAuth)
	}
	user, err := credential(s, corev1.BasicAuthUsernameKey)
	if err != nil {
		return nil, err
	}
	if strings.Contains(user, ":") {
		return nil, fmt.Errorf("Secret %q: key %q contains a ':', which basic authentication cannot carry", s.Name, corev1.BasicAuthUsernameKey)
	}
	password, err := credential(s, corev1.BasicAuthPasswordKey)
	if err != nil {
		return nil, err
	}
	// Hashed with the Secret's UID, so that the revision tells nothing about what it stands for.
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d:%s%d:%s", s.UID, len(user), user, len(password), password))
	return &provider.Credentials{Username: user, Password: password, Revision: hex.EncodeToString(sum[:8])}, nil
}

func credential(s *corev1.Secret, key string) (string, error) {
	value, ok := s.Data[key]
	switch {
	case !ok:
		return "", fmt.Errorf("Secret %q has no key %q", s.Name, key)
	case len(value) == 0:
		return "", fmt.Errorf("Secret %q: key %q is empty", s.Name, key)
	case len(value) > MaxCredentialBytes:
		return "", fmt.Errorf("Secret %q: key %q is %d bytes long, at most %d are allowed", s.Name, key, len(value), MaxCredentialBytes)
	case strings.ContainsAny(string(value), "\r\n\x00"):
		return "", fmt.Errorf("Secret %q: key %q contains a line break or NUL (was it made from a file that ends in a newline?)", s.Name, key)
	}
	return string(value), nil
}
