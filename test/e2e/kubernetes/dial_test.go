//go:build e2e

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// dial connects to an address of a Pod: directly where E2E_DIRECT is set, because the tests are in the Pods' network, and
// else through the API server, which any cluster allows.
func (c *cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if os.Getenv("E2E_DIRECT") != "" {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	pod, err := c.at(ctx, host)
	if err != nil {
		return nil, err
	}
	local, stop, err := c.forward(ctx, pod, port)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(local))))
	if err != nil {
		stop()
		return nil, err
	}
	return &forwarded{Conn: conn, stop: stop}, nil
}

// at finds the Pod that has the address.
func (c *cluster) at(ctx context.Context, ip string) (*corev1.Pod, error) {
	pods, err := c.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.podIP=" + ip})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning {
			return &pods.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no Pod has the address %s", ip)
}

// forward opens a port of this host that leads to a port of the Pod.
func (c *cluster) forward(ctx context.Context, pod *corev1.Pod, port string) (local uint16, stop func(), err error) {
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return 0, nil, err
	}
	url := c.kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	ended, up, failed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	f, err := portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url), []string{"0:" + port}, ended, up, io.Discard, io.Discard)
	if err != nil {
		return 0, nil, err
	}
	go func() { failed <- f.ForwardPorts() }()
	select {
	case <-up:
	case err := <-failed:
		return 0, nil, errors.Join(errors.New("forwarding ended"), err)
	case <-ctx.Done():
		close(ended)
		return 0, nil, ctx.Err()
	}
	ports, err := f.GetPorts()
	if err != nil {
		close(ended)
		return 0, nil, err
	}
	return ports[0].Local, func() { close(ended); <-failed }, nil
}

// forwarded is a connection with the forwarding that it alone uses.
type forwarded struct {
	net.Conn
	stop func()
}

// Close ends both.
func (f *forwarded) Close() error {
	err := f.Conn.Close()
	if f.stop != nil {
		f.stop()
		f.stop = nil
	}
	return err
}
