package node

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestIdentities(t *testing.T) {
	c := testConfig(t)
	if err := c.writeIdentities(); err != nil {
		t.Fatal(err)
	}
	for name, user := range map[string]struct{ name, group string }{
		"admin":                   {"admin", "system:masters"},
		"kubelet":                 {"system:node:" + Name, "system:nodes"},
		"kube-controller-manager": {"system:kube-controller-manager", ""},
		"kube-scheduler":          {"system:kube-scheduler", ""},
		"kube-proxy":              {"system:kube-proxy", ""},
	} {
		rest, err := clientcmd.BuildConfigFromFlags("", c.path(name+".kubeconfig"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if rest.Host != server {
			t.Errorf("%s talks to %s, want %s", name, rest.Host, server)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(rest.CAData)
		pair, err := tls.X509KeyPair(rest.CertData, rest.KeyData)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		groups := append(pair.Leaf.Subject.Organization, "")
		if pair.Leaf.Subject.CommonName != user.name || groups[0] != user.group {
			t.Errorf("%s is %v, want %v", name, pair.Leaf.Subject, user)
		}
	}
}

func TestServersHaveTheirAddresses(t *testing.T) {
	c := testConfig(t)
	if err := c.writeIdentities(); err != nil {
		t.Fatal(err)
	}
	for name, hosts := range map[string][]string{
		"apiserver": {Address, "127.0.0.1", serviceIP, "kubernetes.default.svc"},
		"kubelet":   {Address, Name},
	} {
		pair, err := tls.LoadX509KeyPair(c.pki(name+".crt"), c.pki(name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			if err := pair.Leaf.VerifyHostname(host); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
