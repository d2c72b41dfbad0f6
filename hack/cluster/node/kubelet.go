package node

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

func (c Config) kubelet() *components.Process {
	return &components.Process{
		Name: "kubelet", Path: filepath.Join(c.Node, "kubelet"), Logs: c.Logs,
		Args: []string{
			"--config=" + c.path("kubelet.yaml"),
			"--kubeconfig=" + c.path("kubelet.kubeconfig"),
			"--hostname-override=" + Name, "--node-ip=" + Address,
			"--cert-dir=" + c.path("kubelet-certificates"),
		},
		Ready: healthy("http://127.0.0.1:10248/healthz"),
	}
}

func (c Config) kubeletConfig() object {
	return object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address":            Address,
		"healthzBindAddress": "127.0.0.1",
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": c.pki("ca.crt")},
		},
		"authorization":            object{"mode": "Webhook"},
		"tlsCertFile":              c.pki("kubelet.crt"),
		"tlsPrivateKeyFile":        c.pki("kubelet.key"),
		"containerRuntimeEndpoint": "unix://" + containerdSocket,

		"cgroupDriver":           "cgroupfs",
		"cgroupRoot":             c.cgroup(),
		"failCgroupV1":           false,
		"enforceNodeAllocatable": []string{}, // no limit around all Pods together
		"failSwapOn":             false,
		// Measuring disks takes a filesystem that the kubelet can tell the device of.
		"localStorageCapacityIsolation": false,
		// This host's disk may be nearly full: that must neither evict a Pod nor remove an image that nobody can pull again.
		"evictionHard":                object{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%", "imagefs.inodesFree": "0%", "memory.available": "1Mi"},
		"imageGCHighThresholdPercent": 100,

		"nodeStatusUpdateFrequency": "2s",
		"volumePluginDir":           c.path("volume-plugins"), // the default is a folder of the host
		// Pods ask the node, where the command may answer.
		"clusterDNS": []string{Address}, "clusterDomain": "cluster.local",
		"resolvConf": c.path("resolv.conf"),
	}
}

func (c Config) writeKubelet() error {
	return errors.Join(
		os.WriteFile(c.path("resolv.conf"), []byte("nameserver "+Address+"\n"), 0o644),
		writeYAML(c.path("kubelet.yaml"), c.kubeletConfig()),
	)
}
