package scale

import (
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stream is one watch. It never makes the server wait, and while it is silent it keeps what happens to itself.
type stream struct {
	ready chan struct{}
	out   chan watch.Event
	done  chan struct{}
	stop  sync.Once

	mu     sync.Mutex
	queue  []watch.Event
	silent bool
}

// watch starts a watch of what happens after the given version.
func (s *server) watch(k kind, after string) *stream {
	w := &stream{ready: make(chan struct{}, 1), out: make(chan watch.Event), done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, found := range s.objects[k] {
		if newer(found.obj, after) {
			w.send(watch.Event{Type: watch.Modified, Object: found.obj})
		}
	}
	for _, last := range s.buried[k] {
		if newer(last, after) {
			w.send(watch.Event{Type: watch.Deleted, Object: last})
		}
	}
	s.watchers[k] = append(s.watchers[k], w)
	go w.run()
	return w
}

func newer(obj client.Object, than string) bool {
	have, _ := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	base, _ := strconv.ParseInt(than, 10, 64)
	return have > base
}

// silence holds back what every watch would bring, or lets it go on.
func (s *server) silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, watchers := range s.watchers {
		for _, w := range watchers {
			w.mu.Lock()
			w.silent = silent
			w.mu.Unlock()
			w.wake()
		}
	}
}

func (w *stream) send(e watch.Event) {
	w.mu.Lock()
	w.queue = append(w.queue, e)
	w.mu.Unlock()
	w.wake()
}

func (w *stream) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

func (w *stream) run() {
	defer close(w.out)
	for {
		select {
		case <-w.done:
			return
		case <-w.ready:
		}
		for _, e := range w.take() {
			select {
			case <-w.done:
				return
			case w.out <- e:
			}
		}
	}
}

func (w *stream) take() []watch.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent {
		return nil
	}
	events := slices.Clone(w.queue)
	w.queue = nil
	return events
}

// Stop implements watch.Interface.
func (w *stream) Stop() { w.stop.Do(func() { close(w.done) }) }

// ResultChan implements watch.Interface.
func (w *stream) ResultChan() <-chan watch.Event { return w.out }
