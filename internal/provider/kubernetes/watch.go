package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

const (
	// watchSeconds is when the API server ends a watch, which begins with a list again then.
	watchSeconds = 600
	// watchLasted is how long a watch has to go well to be tried again at once when it ends.
	watchLasted = 30 * time.Second
	// firstListTimeout bounds what comes before a watch; a page takes the API server a second at most.
	firstListTimeout = time.Minute
)

// rewatch is how long to wait before the next try of a watch that ended early.
func rewatch() wait.Backoff {
	return wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 30 * time.Second}
}

// Watch tells of Pods in every namespace of the entry. Secrets are left to lists: an instance whose Pod is gone serves
// nobody.
func (p *Provider) Watch(ctx context.Context, tell func(provider.Change)) {
	var all sync.WaitGroup
	for _, namespace := range p.scopes() {
		all.Go(func() {
			w := &watcher{p: p, namespace: namespace, tell: tell, known: map[string]provider.Instance{}}
			w.run(ctx)
		})
	}
	all.Wait()
}

// watcher watches one namespace, or all of them where it is empty.
type watcher struct {
	p         *Provider
	namespace string
	tell      func(provider.Change)
	// known are the instances that were told of and are not gone, by ID.
	known map[string]provider.Instance
}

func (w *watcher) run(ctx context.Context) {
	ctx = w.p.calling(ctx, "watch", "")
	pause := rewatch()
	for ctx.Err() == nil {
		began := time.Now()
		err := w.once(ctx)
		if time.Since(began) >= watchLasted {
			pause = rewatch()
			if err == nil {
				continue
			}
		}
		if ctx.Err() == nil && err != nil {
			logger(ctx).V(1).Info("the watch of Pods ended", "namespace", w.namespace,
				"class", provider.ClassName(w.p.fail("watch", "", err)), "error", message.Clean(err.Error()))
		}
		rest := time.NewTimer(pause.Step())
		select {
		case <-ctx.Done():
		case <-rest.C:
		}
		rest.Stop()
	}
}

// once lists and then watches until the watch ends.
func (w *watcher) once(ctx context.Context) error {
	version, err := w.list(ctx)
	if err != nil {
		return err
	}
	stream, err := w.p.api.watch(ctx, pods, w.namespace, metav1.ListOptions{
		LabelSelector: selector(w.p.owner), ResourceVersion: version, TimeoutSeconds: ptr.To[int64](watchSeconds),
	})
	if err != nil {
		return err
	}
	defer stream.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-stream.ResultChan():
			if !open {
				return nil
			}
			if err := w.take(e); err != nil {
				return err
			}
		}
	}
}

// list tells of all Pods that there are, and of those that have gone since they were last told of.
func (w *watcher) list(ctx context.Context) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, firstListTimeout)
	defer cancel()
	gone := maps.Clone(w.known)
	for next := ""; ; {
		page := &corev1.PodList{}
		if err := w.p.api.list(ctx, pods, w.namespace, w.p.page(next), page); err != nil {
			return "", err
		}
		for i := range page.Items {
			if inst := w.p.ofPod(&page.Items[i]); w.p.listed(*inst) {
				delete(gone, inst.ID)
				w.is(inst)
			}
		}
		if version, next = page.ResourceVersion, page.Continue; next == "" {
			break
		}
	}
	for _, inst := range gone {
		w.went(&inst)
	}
	return version, nil
}

// take passes on one event.
func (w *watcher) take(e watch.Event) error {
	switch e.Type {
	case watch.Added, watch.Modified, watch.Deleted:
	case watch.Error:
		return &callError{verbWatch, pods, "", apierrors.FromObject(e.Object)}
	default:
		return nil
	}
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return &callError{verbWatch, pods, "", fmt.Errorf("got a %T", e.Object)}
	}
	inst := w.p.ofPod(pod)
	before, known := w.known[inst.ID]
	switch mine := w.p.listed(*inst); {
	case e.Type != watch.Deleted && mine:
		w.is(inst)
	case known && before.Identity == inst.Identity:
		// Removed, or no longer recognisable as ours.
		w.went(&before)
	case mine:
		w.went(inst)
	}
	return nil
}

func (w *watcher) is(inst *provider.Instance) {
	// A Pod of the same name is another one: the one before has gone.
	if before, ok := w.known[inst.ID]; ok && before.Identity != inst.Identity {
		w.went(&before)
	}
	w.known[inst.ID] = *inst
	w.tell(provider.Change{Instance: *inst})
}

func (w *watcher) went(inst *provider.Instance) {
	delete(w.known, inst.ID)
	w.tell(provider.Change{Instance: *inst, Gone: true})
}

// watch follows what changes after a list; an empty namespace stands for all of them.
func (a *api) watch(ctx context.Context, resource, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	stream, err := a.rest.Get().MaxRetries(0).NamespaceIfScoped(namespace, namespace != "").Resource(resource).
		VersionedParams(&opts, a.codec).Watch(quiet(ctx))
	return stream, done(ctx, verbWatch, resource, "", err)
}
