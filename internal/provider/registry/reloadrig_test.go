package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const callTimeout = 30 * time.Second

// scoped is a provider of the IDs <scope>/…, which notes what reaches it after it was closed.
type scoped struct {
	provider.Provider
	world             *world
	name, scope, site string

	mu     sync.Mutex
	closed int
	late   []string
	// hold, where set, is what calls wait for.
	hold chan struct{}
}

func (s *scoped) InScope(id string) error {
	if !strings.HasPrefix(id, s.scope+"/") {
		return provider.Wrap(provider.ErrPermanent, "get", s.name, id, fmt.Errorf("want %s", s.scope)).WithReason(provider.ReasonScopeMismatch)
	}
	return nil
}

func (s *scoped) Sites(string) []string {
	if s.site == "" {
		return nil
	}
	return strings.Split(s.site, ",")
}

func (s *scoped) called(op string) error {
	s.mu.Lock()
	hold := s.hold
	if s.closed > 0 {
		s.late = append(s.late, op)
	}
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if wait := s.world.latency; wait != nil {
		<-time.After(wait())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed > 0 {
		s.late = append(s.late, "end of "+op)
	}
	return nil
}

func (s *scoped) Create(context.Context, provider.CreateRequest, provider.Ref) error {
	return s.called("create")
}

func (s *scoped) Get(context.Context, provider.Ref) (*provider.Instance, error) {
	return &provider.Instance{State: provider.StateRunning}, s.called("get")
}

func (s *scoped) Delete(context.Context, provider.Ref) error { return s.called("delete") }

func (s *scoped) ListByTag(context.Context) (provider.Listing, error) {
	return provider.Listing{}, s.called("list")
}

func (s *scoped) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

func (s *scoped) closes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// blunt hides that a provider can tell its scope.
type blunt struct{ provider.Provider }

func (b blunt) Close() error { return b.Provider.(*scoped).Close() }

// world is a registry with the records of Proxies.
type world struct {
	t       *testing.T
	r       *registry.Registry
	latency func() time.Duration

	mu      sync.Mutex
	made    []*scoped
	use     map[string][]string // IDs on record by entry
	askErr  error
	onAsk   func(asked int)
	asked   int
	builds  int
	last    []string // names of which the last word has been said
	factory map[string]registry.Factory
}

func newWorld(t *testing.T, file string) *world {
	t.Helper()
	w := &world{t: t, use: map[string][]string{}}
	w.factory = map[string]registry.Factory{"local": w.build, "gcp": w.build}
	var err error
	w.r, err = registry.Build(t.Context(), w.parse(file), w.factory, registry.BuildOptions{
		Owner: owner, Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: callTimeout},
		Decorate: func(name string, p provider.Provider) provider.Provider {
			return instrument.WithGuard(p, name, clock.RealClock{})
		},
		Gone: func(name string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, back := w.r.Lookup(name); back {
				w.t.Errorf("%s is said to be gone, and is there", name)
			}
			w.last = append(w.last, name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) build(_ context.Context, opts provider.Options) (provider.Provider, error) {
	var cfg struct {
		Scope string `json:"scope"`
		Site  string `json:"site"`
		Blunt bool   `json:"blunt"`
		Fail  bool   `json:"fail"`
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.builds++
	if err := opts.Block.Decode(&cfg); err != nil {
		return nil, err
	}
	if cfg.Fail {
		return nil, errors.New("no such key file")
	}
	s := &scoped{world: w, name: opts.Name, scope: cfg.Scope, site: cfg.Site}
	w.made = append(w.made, s)
	if cfg.Blunt {
		return blunt{s}, nil
	}
	return s, nil
}

// parse reads lines like "a scope=x maxInstances=1"; the type is local unless it says gcp.
func (w *world) parse(file string) []registry.Entry {
	w.t.Helper()
	var text strings.Builder
	text.WriteString("providers:\n")
	entries := strings.Split(file, ";")
	if strings.TrimSpace(file) == "" {
		entries, text = nil, strings.Builder{}
		text.WriteString("providers: []\n")
	}
	for _, e := range entries {
		words := strings.Fields(e)
		typ, block, outer := "local", "", ""
		for _, word := range words[1:] {
			key, value, _ := strings.Cut(word, "=")
			switch key {
			case "gcp":
				typ = "gcp"
			case "maxInstances":
				outer = "  maxInstances: " + value + "\n"
			default:
				block += "    " + key + ": " + value + "\n"
			}
		}
		fmt.Fprintf(&text, "- name: %s\n  type: %s\n%s  %s:\n%s", words[0], typ, outer, typ, block)
	}
	entries2, err := registry.Parse([]byte(text.String()), registry.Types(w.factory))
	if err != nil {
		w.t.Fatal(err)
	}
	return entries2
}

func (w *world) inUse(_ context.Context, name string) ([]string, error) {
	w.mu.Lock()
	w.asked++
	asked, hook := w.asked, w.onAsk
	w.mu.Unlock()
	if hook != nil {
		hook(asked)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.use[name]), w.askErr
}

// gone returns of which entries the last word has been said since it was asked last.
func (w *world) gone() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	out := strings.Join(w.last, " ")
	w.last = nil
	return out
}

func (w *world) record(name string, ids ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.use[name] = ids
}

func (w *world) reload(file string) registry.Result {
	w.t.Helper()
	return w.r.Reload(w.t.Context(), w.parse(file), w.inUse)
}

// scope returns that of the entry in force, "" where there is none.
func (w *world) scope(name string) string {
	if s := w.of(name); s != nil {
		return s.scope
	}
	return ""
}

func (w *world) of(name string) *scoped {
	h, ok := w.r.Lookup(name)
	if !ok {
		return nil
	}
	s, _ := instrument.As[*scoped](h.Provider)
	if b, ok := instrument.As[blunt](h.Provider); ok {
		s = b.Provider.(*scoped)
	}
	return s
}

// end closes the registry. Everything that was ever made is closed once by then, and nothing has reached a closed one.
func (w *world) end() {
	w.t.Helper()
	if err := w.r.Close(); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.made {
		s.mu.Lock()
		if s.closed != 1 {
			w.t.Errorf("%s (scope %s) was closed %d times", s.name, s.scope, s.closed)
		}
		if len(s.late) > 0 {
			w.t.Errorf("%s (scope %s) was called after it was closed: %v", s.name, s.scope, s.late)
		}
		s.mu.Unlock()
	}
}

// wants compares what a reload came to, as in "+added ~changed -removed !refused:InUse".
func (w *world) wants(what string, got registry.Result, want string) {
	w.t.Helper()
	var words []string
	for _, part := range []struct {
		sign  string
		names []string
	}{{"+", got.Added}, {"~", got.Changed}, {"-", got.Removed}} {
		for _, name := range part.names {
			words = append(words, part.sign+name)
		}
	}
	for _, refused := range got.Refused {
		words = append(words, "!"+refused.Name+":"+string(refused.Why))
	}
	if have := strings.Join(words, " "); have != want || got.Err != nil {
		w.t.Errorf("%s: %q, %v, %v; want %q", what, have, got.Refused, got.Err, want)
	}
}
