package assets

import (
	"os"
	"path/filepath"
)

// binary is one program and the Go package it is built from.
type binary struct{ name, pkg string }

const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

var (
	controlPlane = []binary{
		{"etcd", etcdModule},
		{"kube-apiserver", kubernetesModule + "/cmd/kube-apiserver"},
	}
	node = []binary{
		{"kubelet", kubernetesModule + "/cmd/kubelet"},
		{"kube-controller-manager", kubernetesModule + "/cmd/kube-controller-manager"},
		{"kube-scheduler", kubernetesModule + "/cmd/kube-scheduler"},
		{"kube-proxy", kubernetesModule + "/cmd/kube-proxy"},
	}
	kubectl = []binary{{"kubectl", kubernetesModule + "/cmd/kubectl"}}
)

// missingIn returns the name of the first binary that dir lacks, "" when it has them all.
func missingIn(dir string, wanted []binary) string {
	for _, b := range wanted {
		if info, err := os.Stat(filepath.Join(dir, b.name)); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return b.name
		}
	}
	return ""
}
