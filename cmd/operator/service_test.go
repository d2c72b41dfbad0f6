package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/leaderlabel"
)

// service is what the Service of the manifests is in a cluster: it passes each new connection on to the Pod with the leader's
// label, and refuses it while there is none.
type service struct {
	t         *testing.T
	c         client.Client
	namespace string
	listener  net.Listener

	mu  sync.Mutex
	at  map[string]string // the API's address by the name of the Pod
	all sync.WaitGroup
}

func newService(t *testing.T, c client.Client, namespace string) *service {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	fatal(t, err)
	s := &service{t: t, c: c, namespace: namespace, listener: l, at: map[string]string{}}
	s.all.Go(s.serve)
	t.Cleanup(func() { _ = l.Close(); s.all.Wait() })
	return s
}

// runs notes that the Pod's process serves there.
func (s *service) runs(pod, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[pod] = address
}

func (s *service) serve() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			s.all.Go(func() { s.pass(conn) })
		}
	}
}

// leader is the address of the Pod that the Service selects, empty for none.
func (s *service) leader() string {
	var list corev1.PodList
	if err := s.c.List(context.Background(), &list, client.InNamespace(s.namespace), client.HasLabels{leaderlabel.Label}); err != nil || len(list.Items) != 1 {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at[list.Items[0].Name]
}

func (s *service) pass(conn net.Conn) {
	defer conn.Close()
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", s.leader())
	if err != nil {
		return
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{conn, to}, {to, conn}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close() // either side's end is both's
			_ = pair[1].Close()
		})
	}
	both.Wait()
}
