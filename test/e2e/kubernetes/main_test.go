//go:build e2e

package kubernetes

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgo "k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// settings are what the environment has to say.
type settings struct{ kubeconfig, operator, squid, target string }

// cluster is the one under test, with what was put into it once for all tests.
type cluster struct {
	settings
	config *rest.Config
	kube   clientgo.Interface
	client client.Client
	// targetIP is the address of the website that proxies may go to.
	targetIP string
}

// shared is set by TestMain.
var shared *cluster

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := connect(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if code != 0 {
			c.explain(ctx)
		}
		if err := c.uninstall(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "e2e: removing what was installed:", err)
			code = max(code, 1)
		}
	}()
	if err := c.install(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: installing:", err)
		return 1
	}
	shared = c
	return m.Run()
}

func connect(ctx context.Context) (*cluster, error) {
	c := &cluster{settings: settings{
		kubeconfig: os.Getenv("KUBECONFIG"), operator: os.Getenv("E2E_OPERATOR_IMAGE"),
		squid: os.Getenv("E2E_SQUID_IMAGE"), target: os.Getenv("E2E_TARGET_IMAGE"),
	}}
	for name, value := range map[string]string{
		"KUBECONFIG": c.kubeconfig, "E2E_OPERATOR_IMAGE": c.operator, "E2E_SQUID_IMAGE": c.squid, "E2E_TARGET_IMAGE": c.target,
	} {
		if value == "" {
			return nil, fmt.Errorf("%s is not set", name)
		}
	}
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig); err != nil {
		return nil, err
	}
	c.config.QPS, c.config.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if c.client, err = client.New(c.config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if c.kube, err = clientgo.NewForConfig(c.config); err != nil {
		return nil, err
	}
	if _, err := c.kube.CoreV1().Namespaces().Get(ctx, operatorNamespace, metav1.GetOptions{}); err == nil {
		return nil, fmt.Errorf("the cluster has a namespace %s already: this is for clusters without an operator", operatorNamespace)
	}
	return c, nil
}

// explain prints what helps to understand a failure.
func (c *cluster) explain(ctx context.Context) {
	pods, err := c.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range pods.Items {
		fmt.Fprintf(os.Stderr, "e2e: pod %s/%s %s %s %s\n", p.Namespace, p.Name, p.Status.Phase, p.Status.PodIP, whyNot(&p))
		if p.Namespace == operatorNamespace {
			lines := int64(60)
			log, err := c.kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{TailLines: &lines}).DoRaw(ctx)
			fmt.Fprintln(os.Stderr, string(log), err)
		}
	}
}

func whyNot(p *corev1.Pod) string {
	var out []string
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			out = append(out, s.State.Waiting.Reason, s.State.Waiting.Message)
		}
		if s.LastTerminationState.Terminated != nil {
			out = append(out, fmt.Sprintf("last ended with %d", s.LastTerminationState.Terminated.ExitCode))
		}
	}
	for _, cond := range p.Status.Conditions {
		if cond.Status == corev1.ConditionFalse {
			out = append(out, cond.Reason, cond.Message)
		}
	}
	return strings.Join(out, " ")
}
