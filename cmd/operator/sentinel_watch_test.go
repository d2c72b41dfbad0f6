package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// witness keeps what the operator has ever shown in objects: the status of Proxies and ProviderHealths, and Events.
type witness struct {
	mu   sync.Mutex
	said map[string]bool
	// reasons are those of Events and conditions.
	reasons map[string]bool
}

// watchAll begins to watch what an operator of a namespace writes; names of ProviderHealths begin with it. It ends with the test.
func watchAll(t *testing.T, namespace string) *witness {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(apiConfig, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &witness{said: map[string]bool{}, reasons: map[string]bool{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	for _, list := range []client.ObjectList{&v1alpha1.ProxyList{}, &v1alpha1.ProviderHealthList{}, &eventsv1.EventList{}} {
		i, err := c.Watch(ctx, list)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			defer i.Stop()
			for {
				select {
				case e, ok := <-i.ResultChan():
					if !ok {
						return
					}
					w.take(e, namespace)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	return w
}

func (w *witness) take(e watch.Event, namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := e.Object.(type) {
	case *v1alpha1.Proxy:
		if o.Namespace == namespace {
			status := o.Status.DeepCopy()
			status.Replaced = "" // what somebody has annotated the Proxy with
			w.keep(status)
			for _, c := range status.Conditions {
				w.reasons[c.Reason] = true
			}
		}
	case *v1alpha1.ProviderHealth:
		if strings.HasPrefix(o.Name, namespace) {
			w.keep(o.Status)
			for _, c := range o.Status.Conditions {
				w.reasons[c.Reason] = true
			}
		}
	case *eventsv1.Event:
		if o.Namespace == namespace || strings.HasPrefix(o.Regarding.Name, namespace) {
			w.keep(o)
			w.reasons[o.Reason] = true
		}
	}
}

func (w *witness) keep(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		data = []byte(fmt.Sprint(v))
	}
	w.said[string(data)] = true
}

// all is everything that was shown.
func (w *witness) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for text := range w.said {
		b.WriteString(text + "\n")
	}
	return b.String()
}

func (w *witness) has(reason string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reasons[reason]
}
