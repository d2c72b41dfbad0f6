package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// kubernetes runs Pods on the control plane, with a kubelet of the test's own.
func (x *stage) kubernetes(subnet int) *backend {
	x.t.Helper()
	addresses := places(x.t, x.ears, "a Pod", subnet, 6, x.port)
	b := &backend{entry: x.named("pods"), kind: "kubernetes", serves: true}
	kubeconfig := apiServer(x.t, x.ears, "the API server of Pods", func(r *httputil.ProxyRequest) {
		if r.In.Method == http.MethodGet && r.In.URL.Query().Get("watch") == "" {
			r.Out.Header.Set("Accept", "application/json")
			r.Out.Header.Del("Accept-Encoding")
		}
	}, earlierObjects)
	b.text = fmt.Sprintf("- name: %s\n  type: kubernetes\n  kubernetes:\n    kubeconfig: %s\n    namespace: %s\n    allowClients: [127.0.0.0/8]\n", b.entry, kubeconfig, x.ns)
	given := map[types.UID]bool{}
	b.tend = func() {
		var list corev1.PodList
		if err := x.c.List(x.t.Context(), &list, client.InNamespace(x.ns), client.HasLabels{provider.LabelManaged}); err != nil {
			x.t.Fatal(err)
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Status.PodIP != "" || pod.DeletionTimestamp != nil || given[pod.UID] {
				continue
			}
			given[pod.UID] = true
			ip := addresses[(len(given)-1)%len(addresses)]
			pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "squid", Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
			if err := x.c.Status().Update(x.t.Context(), pod); client.IgnoreNotFound(err) != nil {
				x.t.Fatal(err)
			}
		}
	}
	b.age = func(types.UID) {}
	return b
}

// earlierObjects makes everything some minutes older than it is: only the API server says how old something is.
func earlierObjects(res *http.Response) error {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") || res.Request.URL.Query().Get("watch") != "" {
		return nil
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(older(data, `"creationTimestamp":"`)))
	return nil
}
