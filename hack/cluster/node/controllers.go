package node

import (
	"path/filepath"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

func (c Config) controllerManager() *components.Process {
	return c.controller("kube-controller-manager", "https://127.0.0.1:10257/healthz",
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.pki("service-accounts.key"),
		"--root-ca-file="+c.pki("ca.crt"),
		"--flex-volume-plugin-dir="+c.path("volume-plugins"), // the default is a folder of the host, which it would make
		"--cluster-signing-cert-file="+c.pki("ca.crt"), "--cluster-signing-key-file="+c.pki("ca.key"),
	)
}

func (c Config) scheduler() *components.Process {
	return c.controller("kube-scheduler", "https://127.0.0.1:10259/healthz")
}

func (c Config) controller(name, health string, args ...string) *components.Process {
	kubeconfig := c.path(name + ".kubeconfig")
	return &components.Process{
		Name: name, Path: filepath.Join(c.Node, name), Logs: c.Logs,
		Args: append([]string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--leader-elect=false", // there is one
		}, args...),
		Ready: healthy(health),
	}
}
