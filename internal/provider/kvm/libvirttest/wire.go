package libvirttest

import (
	"net"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// Fault decides what befalls a call. do makes it; what the fault returns is what the caller hears. It may block.
type Fault func(call string, do func() error) error

// Wire is what calls pass on their way to a daemon.
type Wire struct {
	mu     sync.Mutex
	faults []*installed
	seen   []string
}

type installed struct {
	fault Fault
	match func(call string) bool
	once  bool
}

// Over returns next as reached over the wire.
func (w *Wire) Over(next session.API) session.API { return &wired{next, w} }

// Speak is session.Options.Speak with the wire before whatever speak leads to.
func (w *Wire) Speak(speak func(net.Conn) (session.API, error)) func(net.Conn) (session.API, error) {
	return func(c net.Conn) (session.API, error) {
		api, err := speak(c)
		if err != nil {
			return nil, err
		}
		return w.Over(api), nil
	}
}

// On matches the calls of these names.
func On(names ...string) func(string) bool {
	return func(call string) bool {
		for _, name := range names {
			if call == name {
				return true
			}
		}
		return false
	}
}

// All matches every call.
func All(string) bool { return true }

// Add lets a fault befall every call that matches, until it is removed.
func (w *Wire) Add(match func(string) bool, f Fault) (remove func()) { return w.add(match, f, false) }

// Once lets a fault befall the next call that matches.
func (w *Wire) Once(match func(string) bool, f Fault) (remove func()) { return w.add(match, f, true) }

func (w *Wire) add(match func(string) bool, f Fault, once bool) func() {
	i := &installed{f, match, once}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, i)
	return func() { w.take(i) }
}

func (w *Wire) take(i *installed) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, f := range w.faults {
		if f == i {
			w.faults = append(w.faults[:n:n], w.faults[n+1:]...)
			return true
		}
	}
	return false
}

// Hold pauses the next call that matches before it is made. reached is closed when it pauses.
func (w *Wire) Hold(match func(string) bool) (reached <-chan struct{}, release func()) {
	at, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	remove := w.Once(match, func(_ string, do func() error) error {
		close(at)
		<-free
		return do()
	})
	return at, func() { once.Do(func() { remove(); close(free) }) }
}

// Seen returns the names of all calls that were made.
func (w *Wire) Seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

func (w *Wire) pass(call string, do func() error) error {
	w.mu.Lock()
	w.seen = append(w.seen, call)
	var fault Fault
	for n, f := range w.faults {
		if f.match(call) {
			fault = f.fault
			if f.once {
				w.faults = append(w.faults[:n:n], w.faults[n+1:]...)
			}
			break
		}
	}
	w.mu.Unlock()
	if fault == nil {
		return do()
	}
	return fault(call, do)
}
