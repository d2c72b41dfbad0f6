// Package node runs the components of a single-node Kubernetes cluster, as processes of this host: inside of namespaces of
// its own, for addresses, ports and paths are fixed.
package node

import (
	"path/filepath"
)

// Addresses of the cluster, free to choose inside of a network namespace.
const (
	Address     = "10.123.0.1"
	podCIDR     = "10.244.0.0/24"
	serviceCIDR = "10.96.0.0/16"
	// serviceIP is that of the Service "kubernetes", the first of serviceCIDR.
	serviceIP = "10.96.0.1"
	// Name is the Node's.
	Name = "node"

	server           = "https://" + Address + ":6443"
	containerdSocket = "/run/containerd/containerd.sock"
	controlSocket    = "/run/cluster-control.sock"
)

// Config says what a cluster is made of. Paths are absolute.
type Config struct {
	// Dir is an empty folder for all that the cluster writes. Its name is that of the cgroup under which Pods run.
	Dir string
	// Logs is a folder for one file per component and, in pods/, for those of Pods.
	Logs string
	// ControlPlane and Node are the folders of binaries, of hack/controlplane/assets.
	ControlPlane, Node string
	// Pause is the archive, in the form of `docker save`, of the image that holds the namespaces of a Pod.
	Pause string
	// Images are archives of more images, in the same form.
	Images []string
	// Command is what runs in the cluster, with its arguments.
	Command []string
}

// ReplacedFolders are those at fixed places that components write to, and what has to be seen there instead.
func (c Config) ReplacedFolders() map[string]string {
	return map[string]string{
		"/var/lib/kubelet":    c.path("kubelet"),
		"/var/lib/cni":        c.path("cni-state"),
		"/var/log/containers": c.path("container-logs"),
		"/var/log/pods":       filepath.Join(c.Logs, "pods"),
	}
}

func (c Config) path(elem ...string) string {
	return filepath.Join(append([]string{c.Dir}, elem...)...)
}

func (c Config) cgroup() string { return "/" + filepath.Base(c.Dir) }
