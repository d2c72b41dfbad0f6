package registry_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestReloadsAmongPasses edits files at random while passes put instances on record, make calls and remove them again. At no
// time is an instance on record out of the scope of an entry that is in force, no call reaches a closed client, and each
// reload comes to what its answers ask for. RELOAD_SEED replays one.
func TestReloadsAmongPasses(t *testing.T) {
	seed, runs := uint64(time.Now().UnixNano()), 25
	if text := os.Getenv("RELOAD_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed, runs = n, 1
	}
	for i := range runs {
		if !t.Failed() {
			synctest.Test(t, func(t *testing.T) { reloadsAmongPasses(t, seed+uint64(i)) })
		}
	}
}

type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func reloadsAmongPasses(t *testing.T, seed uint64) {
	d := &dice{r: rand.New(rand.NewPCG(seed, 0))}
	defer func() {
		if t.Failed() {
			t.Logf("RELOAD_SEED=%d", seed)
		}
	}()
	names, scopes := []string{"a", "b", "c"}, []string{"x", "y"}
	file := func() string {
		var entries []string
		for _, name := range names {
			if d.n(5) > 0 {
				entries = append(entries, fmt.Sprintf("%s scope=%s maxInstances=%d", name, scopes[d.n(2)], 1+d.n(3)))
			}
		}
		if d.n(6) == 0 {
			entries = append(entries, "z fail=true")
		}
		return strings.Join(entries, ";")
	}
	w := newWorld(t, "a scope=x; b scope=y")
	w.latency = func() time.Duration {
		if d.n(40) == 0 {
			return time.Duration(d.n(200)) * time.Second // a call that hangs
		}
		return time.Duration(d.n(int(callTimeout)))
	}
	stop := make(chan struct{})
	var passes sync.WaitGroup
	for worker := range 6 {
		passes.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(d.n(int(20 * time.Second)))):
					w.somePass(d, names[d.n(3)], fmt.Sprintf("%d-%d", worker, n))
				}
			}
		})
	}
	for range 40 {
		<-time.After(time.Duration(d.n(int(2 * time.Minute))))
		w.checkedReload(file())
	}
	close(stop)
	passes.Wait()
	w.end()
}

// somePass is one of a Proxy with or without an instance.
func (w *world) somePass(d *dice, name, number string) {
	h, ok := w.r.Lookup(name)
	if !ok {
		return
	}
	<-time.After(time.Duration(d.n(int(time.Second)))) // it looks at other things first
	s, _ := instrument.As[*scoped](h.Provider)
	ctx, end := instrument.WithPass(w.t.Context())
	defer end()
	ref := provider.Ref{ID: s.scope + "/" + number}
	if d.n(3) == 0 {
		if _, err := h.Provider.ListByTag(ctx); err != nil {
			return
		}
	}
	if d.n(2) == 0 { // the end of one that is there
		w.mu.Lock()
		ids := slices.DeleteFunc(slices.Clone(w.use[name]), func(id string) bool { return s.InScope(id) != nil })
		w.mu.Unlock()
		if len(ids) == 0 {
			return
		}
		ref.ID = ids[d.n(len(ids))]
		if h.Provider.Delete(ctx, ref) == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.use[name] = slices.DeleteFunc(w.use[name], func(id string) bool { return id == ref.ID })
		}
		return
	}
	if instrument.Reserve(ctx, h.Provider, ref) != nil {
		return
	}
	<-time.After(time.Duration(d.n(int(time.Second)))) // the write takes its time
	w.mu.Lock()
	w.use[name] = append(w.use[name], ref.ID)
	w.mu.Unlock()
	if now := w.scope(name); now != "" && now != s.scope {
		w.t.Errorf("%s was put on record of %s when its scope was %s", ref.ID, name, now)
	}
	if err := h.Provider.Create(ctx, provider.CreateRequest{}, ref); err != nil {
		w.t.Errorf("a call after the record was written is refused: %v", err)
	}
}

// checkedReload reloads and compares with what it had to come to.
func (w *world) checkedReload(file string) {
	entries := w.parse(file)
	before := map[string]registry.Handle{}
	for _, h := range w.r.All() {
		before[h.Name] = h
	}
	got := w.reload(file)
	after := map[string]registry.Handle{}
	for _, h := range w.r.All() {
		after[h.Name] = h
	}
	if strings.Contains(file, "fail") {
		if got.Err == nil || len(after) != len(before) {
			w.t.Errorf("a file that cannot be built: %+v", got)
		}
		for name, h := range before {
			if after[name].Provider != h.Provider {
				w.t.Errorf("a file that cannot be built has changed %s", name)
			}
		}
		return
	}
	wanted := map[string]struct{}{}
	for _, e := range entries {
		wanted[e.Name] = struct{}{}
		was, had := before[e.Name]
		is, has := after[e.Name]
		refused := slices.ContainsFunc(got.Refused, func(r registry.Refusal) bool { return r.Name == e.Name })
		added, changed := slices.Contains(got.Added, e.Name), slices.Contains(got.Changed, e.Name)
		switch same := had == has && was.Provider == is.Provider; {
		case refused && (!same || added || changed):
			w.t.Errorf("%s was refused and has changed", e.Name)
		case !refused && (!has || is.MaxInstances != e.MaxInstances):
			w.t.Errorf("%s is not in force and not refused", e.Name)
		case added != (!had && has) || changed != (had && !same):
			w.t.Errorf("%s: added %v, changed %v; was there %v, same %v", e.Name, added, changed, had, same)
		}
	}
	for name := range before {
		_, stays := wanted[name]
		if _, has := after[name]; !stays && has || !stays != slices.Contains(got.Removed, name) {
			w.t.Errorf("%s: wanted %v, in force %v, removed %v", name, stays, has, got.Removed)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, ids := range w.use {
		for _, id := range ids {
			if scope := w.scope(name); scope != "" && !strings.HasPrefix(id, scope+"/") {
				w.t.Errorf("%s is in use and %s has scope %s", id, name, scope)
			}
		}
	}
}
