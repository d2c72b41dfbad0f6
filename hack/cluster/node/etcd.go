package node

import "path/filepath"

const etcdURL = "http://127.0.0.1:2379"

func (c Config) etcd() *process {
	return &process{
		name: "etcd", path: filepath.Join(c.ControlPlane, "etcd"), logs: c.Logs,
		args: []string{
			"--data-dir=" + c.path("etcd"),
			"--unsafe-no-fsync", // nothing has to survive a crash of this host
			"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
			"--listen-peer-urls=http://127.0.0.1:2380",
		},
		ready: healthy(etcdURL + "/health"),
	}
}
