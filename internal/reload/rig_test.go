package reload_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/reload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const start = "providers:\n- {name: a, type: local}\n"

// rig is a reloader of a file over a registry that answers as it is told.
type rig struct {
	t    *testing.T
	path string
	r    *reload.Reloader

	mu       sync.Mutex
	answers  []registry.Result
	entries  []string // names, of each Reload
	records  []string
	log      strings.Builder
	reloaded chan reload.Changes
}

func (x *rig) Reload(_ context.Context, entries []registry.Entry, _ registry.InUse) registry.Result {
	x.mu.Lock()
	defer x.mu.Unlock()
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	x.entries = append(x.entries, strings.Join(names, " "))
	if len(x.answers) == 0 {
		return registry.Result{}
	}
	answer := x.answers[0]
	x.answers = x.answers[1:]
	return answer
}

func (x *rig) Reloaded(result string, refused int, at time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if refused > 0 {
		result += "!"
	}
	if at.IsZero() {
		result += "?"
	}
	x.records = append(x.records, result)
}

// following starts a reloader with the answers that the registry is to give.
func following(t *testing.T, answers ...registry.Result) *rig {
	t.Helper()
	x := &rig{t: t, path: filepath.Join(t.TempDir(), "providers.yaml"), answers: answers, reloaded: make(chan reload.Changes, 100)}
	x.write(start)
	x.r = reload.New(reload.Options{
		Path: x.path, Known: []byte(start), Types: []string{"local", "gcp"}, Registry: x, Clock: clock.RealClock{}, Metrics: x,
		Log: funcr.New(func(_, line string) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.log.WriteString(line + "\n")
		}, funcr.Options{}),
		Retry: 100 * time.Millisecond, Settle: 20 * time.Millisecond,
		OnReload: func(c reload.Changes) { x.reloaded <- c },
	})
	ended := make(chan error, 1)
	go func() { ended <- x.r.Start(t.Context()) }()
	t.Cleanup(func() { // the test's context has ended
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return x
}

// write replaces the file at once.
func (x *rig) write(text string) {
	x.t.Helper()
	next := x.path + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
	if err := os.Rename(next, x.path); err != nil {
		x.t.Fatal(err)
	}
}

// next waits for a reload.
func (x *rig) next() reload.Changes {
	x.t.Helper()
	select {
	case c := <-x.reloaded:
		return c
	case <-time.After(20 * time.Second):
		x.t.Fatal("nothing is reloaded")
		return reload.Changes{}
	}
}

func (x *rig) recorded() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Join(x.records, " ")
}

func (x *rig) logged() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.log.String()
}

func (x *rig) reloads() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.entries)
}

func (x *rig) problem(entry, begins string) {
	x.t.Helper()
	got := x.r.Problem(entry)
	if begins == "" && got != "" || !strings.HasPrefix(got, begins) || len(got) > 512 {
		x.t.Errorf("problem of %s: %q, want %q", entry, got, begins)
	}
}
