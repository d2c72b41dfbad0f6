package node

import (
	"path/filepath"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

func (c Config) apiServer() *components.Process {
	return &components.Process{
		Name: "kube-apiserver", Path: filepath.Join(c.ControlPlane, "kube-apiserver"), Logs: c.Logs,
		Args: []string{
			"--etcd-servers=" + etcdURL,
			"--advertise-address=" + Address,
			"--secure-port=6443",
			"--tls-cert-file=" + c.pki("apiserver.crt"), "--tls-private-key-file=" + c.pki("apiserver.key"),
			"--client-ca-file=" + c.pki("ca.crt"),
			// What a kubelet may do is what its node's Pods need, as in clusters that people run.
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
			"--service-cluster-ip-range=" + serviceCIDR,
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + c.pki("service-accounts.key"),
			"--service-account-signing-key-file=" + c.pki("service-accounts.key"),
			"--kubelet-preferred-address-types=InternalIP", // nobody resolves the node's name
			"--kubelet-certificate-authority=" + c.pki("ca.crt"),
			"--kubelet-client-certificate=" + c.pki("apiserver-kubelet-client.crt"),
			"--kubelet-client-key=" + c.pki("apiserver-kubelet-client.key"),
			// For API servers behind this one; controllers complain in their logs where none can be.
			"--requestheader-client-ca-file=" + c.pki("ca.crt"), "--requestheader-allowed-names=front-proxy",
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + c.pki("front-proxy.crt"), "--proxy-client-key-file=" + c.pki("front-proxy.key"),
		},
		Ready: healthy("https://127.0.0.1:6443/readyz"),
	}
}
