package registry

import (
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Handle is one named provider.
type Handle struct {
	Name string
	Type string
	// Revision is 16 hex digits that change when the entry's configuration does, comments and order aside.
	Revision string
	// MaxInstances caps the recorded attempts; 0 is no cap.
	MaxInstances int32
	// Namespaces that may use the provider; empty means all.
	Namespaces []string
	Provider   provider.Provider

	raw provider.Provider
}

// Allowed reports whether Proxies of the namespace may use the provider.
func (h Handle) Allowed(namespace string) bool {
	return len(h.Namespaces) == 0 || slices.Contains(h.Namespaces, namespace)
}

// Registry finds providers by name. It is safe for concurrent use, and a reader keeps a consistent view: the set is
// replaced as a whole.
type Registry struct {
	handles   atomic.Pointer[map[string]Handle]
	factories map[string]Factory
	opts      BuildOptions

	// reloading is held by the one Reload at a time, and guards gone.
	reloading sync.Mutex
	// gone are the entries that were taken out, as far as they matter to one of the same name.
	gone map[string]gone

	// mu is held while the set is replaced, and guards closed. What is in the background of an open registry is in retiring.
	mu       sync.Mutex
	closed   bool
	stop     chan struct{}
	retiring sync.WaitGroup
}

// Lookup returns the provider of that name.
func (r *Registry) Lookup(name string) (Handle, bool) {
	h, ok := (*r.handles.Load())[name]
	return h, ok
}

// Names returns the names of all providers, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(*r.handles.Load())) }

// All returns all providers, sorted by name.
func (r *Registry) All() []Handle {
	set := *r.handles.Load()
	all := make([]Handle, 0, len(set))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		all = append(all, set[name])
	}
	return all
}

// Close empties the registry and closes every provider that implements io.Closer, also those that a Reload took out and whose
// last calls have not ended. Calling it again does nothing. It blocks as long as the providers' Close does; calls still in
// flight are theirs to finish.
func (r *Registry) Close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	set := *r.handles.Swap(&map[string]Handle{})
	r.mu.Unlock()
	if first {
		close(r.stop)
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(set)) {
		errs = append(errs, closeProvider(set[name].raw))
	}
	r.retiring.Wait()
	return errors.Join(errs...)
}

func closeProvider(p provider.Provider) error {
	if c, ok := p.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
