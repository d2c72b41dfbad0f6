package node

import (
	"context"
	"errors"
	"io"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// Cluster is one that was brought up, at least in part.
type Cluster struct {
	config    Config
	processes []*components.Process
	progress  io.Writer
}

// Up brings a cluster up and returns when a Pod can be created: the Node is Ready and the default ServiceAccount exists.
// Progress, in words and seconds, goes to progress. Nothing is ever stopped here: processes end with their namespaces.
func Up(ctx context.Context, c Config, progress io.Writer) (*Cluster, error) {
	l := &Cluster{config: c, progress: progress}
	report := components.NewReport("cluster", progress)
	etcd, apiServer, containerd := c.etcd(), c.apiServer(), c.containerd()
	controllerManager, scheduler, kubelet, kubeProxy := c.controllerManager(), c.scheduler(), c.kubelet(), c.kubeProxy()
	l.processes = []*components.Process{etcd, apiServer, controllerManager, scheduler, containerd, kubelet, kubeProxy}
	for _, stage := range [][]components.Step{
		{{Name: "certificates and configuration", Do: func(context.Context) error {
			return errors.Join(c.writeIdentities(), c.writeContainerd(), c.writeKubelet(), c.writeKubeProxy())
		}}},
		{
			{Name: "etcd and kube-apiserver", Do: components.InOrder(etcd.Start, apiServer.Start)},
			{Name: "containerd and images", Do: components.InOrder(containerd.Start, c.importImages)},
		},
		{
			{Name: "kube-controller-manager", Do: controllerManager.Start},
			{Name: "kube-scheduler", Do: scheduler.Start},
			{Name: "kubelet", Do: kubelet.Start},
			{Name: "kube-proxy", Do: kubeProxy.Start},
		},
		{
			{Name: "node ready", Do: c.nodeReady},
			{Name: "default service account", Do: c.serviceAccountExists},
			{Name: "service of the API server", Do: serviceAnswers},
		},
	} {
		if err := report.Together(ctx, stage...); err != nil {
			return l, err
		}
	}
	return l, nil
}
