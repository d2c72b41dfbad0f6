package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

// nodeReady waits until the scheduler would place a Pod on the Node.
func (c Config) nodeReady(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return components.Eventually(ctx, func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return schedulable(n)
	})
}

func schedulable(n *corev1.Node) error {
	// The taint goes a moment after the condition has changed.
	if len(n.Spec.Taints) > 0 {
		return fmt.Errorf("Node %s has the taint %s", n.Name, n.Spec.Taints[0].Key)
	}
	for _, condition := range n.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("Node %s is not Ready: %s", n.Name, condition.Message)
		}
		return nil
	}
	return fmt.Errorf("Node %s does not say whether it is Ready", n.Name)
}

// serviceAccountExists waits for the account without which no Pod is admitted to the namespace default.
func (c Config) serviceAccountExists(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	return components.Eventually(ctx, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// serviceAnswers waits until kube-proxy leads to the API server whoever asks its Service.
func serviceAnswers(ctx context.Context) error {
	return components.Eventually(ctx, healthy("https://"+serviceIP+"/readyz"))
}

func (c Config) client() (kubernetes.Interface, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(rest)
}
