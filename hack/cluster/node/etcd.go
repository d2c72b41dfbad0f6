package node

import (
	"path/filepath"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

const etcdURL = "http://127.0.0.1:2379"

func (c Config) etcd() *components.Process {
	return &components.Process{
		Name: "etcd", Path: filepath.Join(c.ControlPlane, "etcd"), Logs: c.Logs,
		Args: []string{
			"--data-dir=" + c.path("etcd"),
			"--unsafe-no-fsync", // nothing has to survive a crash of this host
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=http://127.0.0.1:2380",
		},
		Ready: healthy(etcdURL + "/health"),
	}
}
