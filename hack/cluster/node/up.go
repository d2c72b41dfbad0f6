package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Cluster is one that was brought up, at least in part.
type Cluster struct {
	config    Config
	processes []*process
	progress  io.Writer
	began     time.Time
}

// Up brings a cluster up and returns when a Pod can be created: the Node is Ready and the default ServiceAccount exists.
// Progress, in words and seconds, goes to progress. Nothing is ever stopped here: processes end with their namespaces.
func Up(ctx context.Context, c Config, progress io.Writer) (*Cluster, error) {
	l := &Cluster{config: c, progress: progress, began: time.Now()}
	etcd, apiServer, containerd := c.etcd(), c.apiServer(), c.containerd()
	controllerManager, scheduler, kubelet, kubeProxy := c.controllerManager(), c.scheduler(), c.kubelet(), c.kubeProxy()
	l.processes = []*process{etcd, apiServer, controllerManager, scheduler, containerd, kubelet, kubeProxy}
	for _, stage := range [][]step{
		{{"certificates and configuration", func(context.Context) error {
			return errors.Join(c.writeIdentities(), c.writeContainerd(), c.writeKubelet(), c.writeKubeProxy())
		}}},
		{
			{"etcd and kube-apiserver", inOrder(etcd.Start, apiServer.Start)},
			{"containerd and images", inOrder(containerd.Start, c.importImages)},
		},
		{
			{"kube-controller-manager", controllerManager.Start},
			{"kube-scheduler", scheduler.Start},
			{"kubelet", kubelet.Start},
			{"kube-proxy", kubeProxy.Start},
		},
		{
			{"node ready", c.nodeReady},
			{"default service account", c.serviceAccountExists},
			{"service of the API server", serviceAnswers},
		},
	} {
		if err := l.together(ctx, stage); err != nil {
			return l, err
		}
	}
	return l, nil
}

// step is one thing to be done and waited for.
type step struct {
	name string
	do   func(context.Context) error
}

// together does steps at the same time; the first that fails ends the others.
func (l *Cluster) together(ctx context.Context, steps []step) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(steps))
	for _, s := range steps {
		go func() {
			if err := s.do(ctx); err != nil {
				results <- fmt.Errorf("%s: %w", s.name, err)
				return
			}
			l.say(s.name)
			results <- nil
		}()
	}
	var first error
	for range steps {
		if err := <-results; err != nil && first == nil {
			first = err
			cancel()
		}
	}
	return first
}

// say tells what is done, and when, counted from the beginning.
func (l *Cluster) say(what string) {
	fmt.Fprintf(l.progress, "cluster: %4.1f s  %s\n", time.Since(l.began).Seconds(), what)
}

func inOrder(steps ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, s := range steps {
			if err := s(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
