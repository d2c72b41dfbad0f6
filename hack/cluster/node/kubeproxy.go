package node

import (
	"path/filepath"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

func (c Config) kubeProxy() *components.Process {
	return &components.Process{
		Name: "kube-proxy", Path: filepath.Join(c.Node, "kube-proxy"), Logs: c.Logs,
		Args:  []string{"--config=" + c.path("kube-proxy.yaml")},
		Ready: healthy("http://127.0.0.1:10256/healthz"),
	}
}

func (c Config) kubeProxyConfig() object {
	return object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"mode":               "iptables",
		"clusterCIDR":        podCIDR,
		"hostnameOverride":   Name,
		"bindAddress":        "0.0.0.0",
		"healthzBindAddress": "127.0.0.1:10256",
		"metricsBindAddress": "127.0.0.1:10249",
		"clientConnection":   object{"kubeconfig": c.path("kube-proxy.kubeconfig")},
		// The size of the connection table belongs to the whole host, and its timeouts are not there before its first use.
		"conntrack": object{"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
	}
}

func (c Config) writeKubeProxy() error {
	return writeYAML(c.path("kube-proxy.yaml"), c.kubeProxyConfig())
}
