//go:build e2e

package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// cluster is a whole one: KUBECONFIG leads to it, and E2E_SQUID_IMAGE names an image that its nodes have.
var cluster *rest.Config

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(func() int {
		live.kubeconfig, live.image = os.Getenv("KUBECONFIG"), os.Getenv("E2E_SQUID_IMAGE")
		if live.kubeconfig == "" || live.image == "" {
			fmt.Fprintln(os.Stderr, "KUBECONFIG and E2E_SQUID_IMAGE have to be set")
			return 1
		}
		var err error
		if cluster, err = clientcmd.BuildConfigFromFlags("", live.kubeconfig); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		cluster.QPS, cluster.Burst = 1000, 2000
		return m.Run()
	}())
}

// TestConformsOnARealCluster checks the rules with Pods that run.
func TestConformsOnARealCluster(t *testing.T) {
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.Run(seen, func(t providertest.T) *providertest.Env {
		w := newWorld(t)
		env := w.conformance()
		env.Limit = 30 * time.Second
		env.Wait = w.letRun
		env.HoldBoot = w.cordon
		// A status written by hand is overwritten, unless it is final.
		env.Confuse = nil
		return env
	})
	want := []string{
		"late-failure-frees-the-next-attempt", "late-failure-is-classified", "late-failure-tells-what-is-left",
		"get-unrecognised-is-unknown",
	}
	slices.Sort(want)
	slices.Sort(*seen.all)
	if !slices.Equal(*seen.all, want) {
		t.Errorf("skipped were\n%s\nwant\n%s", strings.Join(*seen.all, "\n"), strings.Join(want, "\n"))
	}
	if !t.Failed() {
		fmt.Printf("proved: %d of %d rules of the provider contract hold with Pods that run\n", len(providertest.Rules())-len(*seen.all), len(providertest.Rules()))
	}
}

// letRun gives the cluster a little time.
func (w *world) letRun(ctx context.Context) error {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if w.wire.settle() {
		w.advance(500 * time.Millisecond)
	}
	return nil
}

// cordon keeps new Pods from nodes.
func (w *world) cordon() (uncordon func()) {
	w.unschedulable(true)
	w.t.Cleanup(func() { w.unschedulable(false) })
	return func() { w.unschedulable(false) }
}

func (w *world) unschedulable(yes bool) {
	nodes, err := w.kube.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	must(w.t, err)
	patch, err := json.Marshal(map[string]any{"spec": corev1.NodeSpec{Unschedulable: yes}})
	must(w.t, err)
	if !yes {
		patch = []byte(`{"spec":{"unschedulable":null}}`)
	}
	for _, n := range nodes.Items {
		_, err := w.kube.CoreV1().Nodes().Patch(context.Background(), n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		must(w.t, err)
	}
}
