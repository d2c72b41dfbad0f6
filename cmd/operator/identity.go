package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// namespaceFile holds the operator's own namespace inside a Pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the operator's namespace: the election's if set, else that of its Pod, else "default". Nothing else
// may come in: the derived installation ID follows from it, and another ID makes every instance foreign.
func ownNamespace(o *options) string {
	if o.leaderNS != "" {
		return o.leaderNS
	}
	if ns := namespaceIn(namespaceFile); ns != "" {
		return ns
	}
	return "default"
}

// podNamespace returns where the Pod is that --pod-name names: what --pod-namespace says, else what file says, which the
// kubelet wrote for the Pod itself, else the operator's namespace. The election may be elsewhere.
func podNamespace(o *options, file string) string {
	if o.podNS != "" {
		return o.podNS
	}
	if ns := namespaceIn(file); ns != "" {
		return ns
	}
	return ownNamespace(o)
}

// namespaceIn returns what stands in a file like namespaceFile, "" when there is none.
func namespaceIn(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// What the manifests have to grant.
//
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get

// startTimeout bounds what the operator asks the API server before it starts.
const startTimeout = 30 * time.Second

// owner derives the marks of this installation. The cluster's identity is the UID of kube-system, which nobody can set:
// a cluster cloned with its UIDs cannot be told apart from its original.
func owner(ctx context.Context, c client.Reader, o *options) (provider.Owner, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout) // a server that hangs is for whoever restarts the operator
	defer cancel()
	var system corev1.Namespace
	if err := c.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
		return provider.Owner{}, fmt.Errorf("reading the namespace kube-system for the cluster's identity: %w", err)
	}
	out := provider.Owner{Cluster: digest("cluster", string(system.UID)), Installation: o.installationID}
	if out.Installation == "" {
		out.Installation = digest("installation", string(system.UID), ownNamespace(o), o.leaderID)
	}
	return out, out.Validate()
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:10])
}
