package node

import (
	"errors"
	"os"

	"k8s.io/client-go/util/keyutil"
)

// Kubeconfig is where the administrator's is.
func (c Config) Kubeconfig() string { return c.path("admin.kubeconfig") }

// writeIdentities makes the certificates, keys and kubeconfigs of everybody in the cluster. Users and groups are those
// that the API server's built-in roles are bound to.
func (c Config) writeIdentities() error {
	a, err := newAuthority(c.pki())
	if err != nil {
		return err
	}
	tokenKey, err := newKey()
	if err != nil {
		return err
	}
	tokenPEM, err := keyutil.MarshalPrivateKeyToPEM(tokenKey)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(a.file("service-accounts.key"), tokenPEM, 0o600),
		a.writeServer("apiserver", []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}, Address, "127.0.0.1", serviceIP),
		a.writeServer("kubelet", []string{Name}, Address),
		a.writeClient("apiserver-kubelet-client", "kube-apiserver", "system:masters"),
		a.writeClient("front-proxy", "front-proxy"),
		a.writeKubeconfig(c.Kubeconfig(), "admin", "system:masters"),
		a.writeKubeconfig(c.path("kubelet.kubeconfig"), "system:node:"+Name, "system:nodes"),
		a.writeKubeconfig(c.path("kube-controller-manager.kubeconfig"), "system:kube-controller-manager"),
		a.writeKubeconfig(c.path("kube-scheduler.kubeconfig"), "system:kube-scheduler"),
		a.writeKubeconfig(c.path("kube-proxy.kubeconfig"), "system:kube-proxy"),
	)
}

func (c Config) pki(elem ...string) string {
	return c.path(append([]string{"pki"}, elem...)...)
}
