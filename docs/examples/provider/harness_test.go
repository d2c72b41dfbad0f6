package boxes_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	boxes "github.com/egress-proxies/egress-proxies-operator/docs/examples/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// TestConforms runs every rule of the contract. What is skipped is listed here, each with its reason, so that a rule that is
// skipped by mistake shows.
func TestConforms(t *testing.T) {
	t.Parallel()
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.Run(seen, newEnv)
	want := []string{
		// What was accepted shows at once.
		"get-reads-the-instance-last",
		// A box has no parts.
		"get-shows-what-parts-are-left",
		// As the first.
		"get-waits-for-a-late-effect",
		// Other credentials take another box.
		"update-credentials-changes-them", "update-credentials-spares-others",
		// The service is asked; it does not tell.
		"watch-ends-with-its-context", "watch-tells-only-of-own", "watch-tells-what-comes", "watch-tells-what-ends", "watch-tells-what-is-gone", "watch-tells-what-is-there",
	}
	slices.Sort(*seen.all)
	if !slices.Equal(*seen.all, want) {
		t.Errorf("skipped were\n%s\nwant\n%s", strings.Join(*seen.all, "\n"), strings.Join(want, "\n"))
	}
}

// newEnv is one service, with what the suite may do to it.
func newEnv(t providertest.T) *providertest.Env {
	c := clocktesting.NewFakePassiveClock(time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC))
	s := newService(c)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	window := provider.Window{Clock: c, CallTimeout: 30 * time.Second, Skew: 5 * time.Second}
	request := requests()
	bad := func(field, value string, change func(*provider.CreateRequest)) providertest.Invalid {
		req := request()
		change(&req)
		return providertest.Invalid{Request: req, Field: field, Value: value}
	}
	var mu sync.Mutex // Wait may be called from several goroutines
	advance := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		c.SetTime(c.Now().Add(d))
	}
	tokens := writeToken(t)
	return &providertest.Env{
		Provider: func(name string, o provider.Owner) provider.Provider {
			return newProvider(t, server.URL, tokens, name, o, window)
		},
		Owner:   provider.Owner{Installation: "conformance-a", Cluster: "cluster-a"},
		Request: request,
		Invalid: []providertest.Invalid{
			bad("placement.zone", "nowhere", func(r *provider.CreateRequest) { r.Placement.Zone = "nowhere" }),
			bad("placement.image", "debian", func(r *provider.CreateRequest) { r.Placement.Image = "debian" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
		},
		ForeignIDs:   []string{"racks/nowhere/boxes/proxy-a"},
		MalformedIDs: []string{"racks/rack-a/boxes/", "racks//boxes/a", "rack-a/a"},
		Window:       window,
		Wait:         func(ctx context.Context) error { advance(time.Second); return ctx.Err() },
		Leftovers:    s.leftovers,
		Many:         2*most + 1, // more than two pages
		NoCloudInit:  true,

		Advance:    advance,
		HoldBoot:   s.holdBoot,
		HoldCreate: func() (<-chan struct{}, func()) { return s.hold(http.MethodGet) },
		HoldGet:    func() (<-chan struct{}, func()) { return s.hold(http.MethodGet) },
		HoldSend:   func() (<-chan struct{}, func()) { return s.hold(http.MethodPut) },
		HoldDelete: func() (<-chan struct{}, func()) { return s.hold(http.MethodDelete) },
		LoseAnswer: func() { s.once(http.MethodPut, fault{drop: true}) },
		ArriveLate: func(d time.Duration) { s.once(http.MethodPut, fault{after: d}) },
		FailLate:   s.failLate,
		Place:      s.placeByHand,
		Stop:       func(id string) { s.set(id, "off") },
		Terminate:  func(id string) { s.set(id, "retired") },
		Confuse:    func(id string) { s.set(id, "contemplating") },
		Vanish: func(id string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.boxes, keyOf(id))
		},
		BreakScope: func(id string) func() {
			rack, _, _ := strings.Cut(keyOf(id), "/")
			return s.strike(func(r *http.Request) *fault {
				if strings.Contains(r.URL.Path, "/racks/"+rack+"/") {
					return &fault{code: "no_rack", status: http.StatusNotFound}
				}
				return nil
			})
		},
		ExhaustQuota: func() func() {
			return s.strike(func(r *http.Request) *fault {
				if r.Method == http.MethodPut {
					return &fault{code: "rack_full", status: http.StatusInsufficientStorage}
				}
				return nil
			})
		},
		Throttle: func(d time.Duration) func() {
			return s.strike(func(*http.Request) *fault {
				return &fault{code: "slow_down", status: http.StatusTooManyRequests, retryAfter: d}
			})
		},
		Deny: func() func() {
			return s.strike(func(*http.Request) *fault { return &fault{code: "unauthorized", status: http.StatusUnauthorized} })
		},
	}
}

func newProvider(t providertest.T, endpoint, tokenFile, name string, o provider.Owner, w provider.Window) provider.Provider {
	block, err := registry.ParseBlock(boxes.Type, fmt.Appendf(nil, "endpoint: %s\ntokenFile: %s\nracks: [rack-a, rack-b]\n", endpoint, tokenFile))
	if err != nil {
		t.Fatalf("the configuration: %v", err)
	}
	p, err := boxes.New(t.Context(), provider.Options{Name: name, Block: block, Owner: o, Window: w})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return p
}

func writeToken(t providertest.T) string {
	dir, err := os.MkdirTemp("", "boxes-")
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = os.WriteFile(filepath.Join(dir, "token"), []byte(token+"\n"), 0o600)
	}
	if err != nil {
		t.Fatalf("the token: %v", err)
	}
	return filepath.Join(dir, "token")
}

// requests returns a source of valid requests, each with a UID of its own.
func requests() func() provider.CreateRequest {
	var mu sync.Mutex
	n := 0
	return func() provider.CreateRequest {
		mu.Lock()
		defer mu.Unlock()
		n++
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
		return provider.CreateRequest{
			Name: provider.NameFromUID(uid), UID: uid, Namespace: "crawlers", ProxyName: fmt.Sprintf("exit-%d", n), Port: 3128, Spec: "v1-0123456789abcdef",
			Credentials: &provider.Credentials{Username: "crawler", Password: "not.the.sentinel", Revision: "r1"},
		}
	}
}

// skips is a T that remembers which parts were skipped.
type skips struct {
	providertest.T
	name string
	all  *[]string
}

func (s *skips) Run(name string, f func(providertest.T)) bool {
	return s.T.Run(name, func(t providertest.T) { f(&skips{T: t, name: name, all: s.all}) })
}

func (s *skips) Skipf(format string, args ...any) {
	*s.all = append(*s.all, s.name)
	s.T.Skipf(format, args...)
}

// leftovers is the leak probe.
func (s *service) leftovers(context.Context) (left []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	for _, key := range slices.Sorted(maps.Keys(s.boxes)) {
		rack, name, _ := strings.Cut(key, "/")
		left = append(left, fmt.Sprintf("racks/%s/boxes/%s (%v)", rack, name, s.boxes[key].shown["status"]))
	}
	return left, nil
}
