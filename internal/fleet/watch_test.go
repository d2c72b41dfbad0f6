package fleet_test

import (
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

func ready(w *fleet.Watcher) bool {
	select {
	case <-w.Ready():
		return true
	default:
		return false
	}
}

func TestWatcherCoalesces(t *testing.T) {
	s := fleet.NewStore()
	s.Apply(managed("a"))
	w := s.Watch()
	if !ready(w) {
		t.Fatal("not ready with what was there before")
	}
	if got := w.Take(); len(got) != 1 || got[0] != name("a") {
		t.Fatalf("starts with %v", got)
	}
	if ready(w) || len(w.Take()) != 0 {
		t.Error("ready with nothing changed")
	}
	for i := range 1000 {
		s.Apply(managed("a", func(p *fleet.Proxy) { p.Generation = int64(i) }))
		s.Apply(managed("b"))
	}
	if !ready(w) || ready(w) {
		t.Error("many changes are not one signal")
	}
	if got := w.Take(); len(got) != 2 {
		t.Errorf("2000 changes of two keys are %v", got)
	}
	v := fleet.Verdict{Subject: s.Get(name("a")).Subject(), Health: fleet.Healthy}
	for range 2 {
		if !s.SetVerdict(name("a"), v) {
			t.Error("a verdict about the current subject was not taken")
		}
	}
	if got := w.Take(); len(got) != 1 {
		t.Errorf("a verdict is told as %v", got)
	}
	s.SetVerdict(name("a"), v)
	if got := w.Take(); len(got) != 0 {
		t.Errorf("the same verdict again is told as %v", got)
	}
}

func TestStop(t *testing.T) {
	s := fleet.NewStore()
	w1, w2, w3 := s.Watch(), s.Watch(), s.Watch()
	s.Stop(w2)
	s.Stop(w2)
	s.Apply(managed("a"))
	if len(w1.Take()) != 1 || len(w2.Take()) != 0 || len(w3.Take()) != 1 {
		t.Error("the stopped watcher is told, or another is not")
	}
}

// TestNoChangeIsLost runs writers against a reader that takes when told. Writers finish however slow the reader is, and
// the reader has seen the last state of each key when nothing is left to take.
func TestNoChangeIsLost(t *testing.T) {
	const writers, proxies, rounds = 4, 20, 200
	s := fleet.NewStore()
	w := s.Watch()
	done := make(chan struct{})
	view := map[types.NamespacedName]int64{}
	look := func() {
		for _, key := range w.Take() {
			if p := s.Get(key); p != nil {
				view[key] = p.Generation
			} else {
				delete(view, key)
			}
		}
	}
	var writing, reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-w.Ready():
				look()
			case <-done:
				if ready(w) {
					look()
				}
				return
			}
		}
	})
	for i := range writers {
		writing.Go(func() {
			for r := range rounds {
				for j := range proxies {
					n := fmt.Sprintf("%d-%d", i, j)
					s.Apply(managed(n, func(p *fleet.Proxy) { p.Generation = int64(r) }))
					if r%7 == j%7 {
						s.Remove(name(n), "uid-"+n)
					}
				}
			}
		})
	}
	for range writers { // watchers come and go meanwhile, one of them never takes anything
		writing.Go(func() {
			for range rounds {
				other := s.Watch()
				s.List("", nil)
				s.Count("cloud")
				s.Stop(other)
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	want := map[types.NamespacedName]int64{}
	for _, p := range s.List("", nil) {
		want[p.Key] = p.Generation
	}
	if len(view) != len(want) {
		t.Fatalf("the reader knows %d keys, there are %d", len(view), len(want))
	}
	for key, generation := range want {
		if view[key] != generation {
			t.Errorf("%v: the reader knows generation %d of %d", key, view[key], generation)
		}
	}
}
