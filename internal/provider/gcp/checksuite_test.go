package gcp_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// TestCheckConforms runs the suite for checkers. It is not parallel: the suite counts goroutines.
func TestCheckConforms(t *testing.T) {
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.RunChecker(seen, func(t providertest.T) *providertest.CheckerEnv {
		w := newWorld(t, gcpemulator.Options{})
		w.extra = "regions: [us-central1, europe-west9]\n"
		suffer := func(f gcpemulator.Fault) func() func() {
			return func() func() { return w.emulator.Inject(gcpemulator.Match{}, f) }
		}
		return &providertest.CheckerEnv{
			Env: w.conformance(), Targets: []string{"project-a"},
			IDs: map[string]string{"project-a": "projects/project-a/zones/us-central1-a/instances/" + provider.NameFromUID("x")},
			States: []providertest.CheckState{
				{Name: "401", Reason: provider.CheckUnauthorized, Bring: suffer(gcpemulator.Fault{Status: 401, Message: "Request had invalid authentication credentials."})},
				{Name: "403", Reason: provider.CheckForbidden, Bring: suffer(gcpemulator.Fault{Status: 403, Message: "Required 'compute.instances.list' permission for 'projects/project-a'"})},
				{Name: "too fast", Reason: provider.CheckAPIError, Bring: suffer(gcpemulator.Fault{Status: 403, Reason: "rateLimitExceeded"})},
				{Name: "500", Reason: provider.CheckAPIError, Bring: suffer(gcpemulator.Fault{Status: 500})},
				{Name: "a page", Reason: provider.CheckAPIError, Bring: suffer(gcpemulator.Fault{Status: 200, HTML: true})},
				{Name: "a reset", Reason: provider.CheckUnreachable, Bring: suffer(gcpemulator.Fault{Reset: true})},
			},
			Say: func(text string) func() {
				return w.emulator.Inject(gcpemulator.Match{}, gcpemulator.Fault{Status: 400, Message: text})
			},
			Hang: func(string) func() {
				free := make(chan struct{})
				mend := w.emulator.Inject(gcpemulator.Match{}, gcpemulator.Fault{Hold: free})
				return sync.OnceFunc(func() { mend(); close(free) })
			},
		}
	})
	if len(*seen.all) > 0 {
		t.Errorf("skipped were %q", *seen.all)
	}
}

// keyed is a front of the emulator that asks for a token, and what gives the token out.
type keyed struct {
	*world
	file   string
	tokens *httptest.Server
	front  *httptest.Server
	mu     sync.Mutex
	hung   chan struct{} // nil while both answer
}

const tokenSentinel = "sentinel-token-b71e"

func newKeyed(t providertest.T, dir string) *keyed {
	w := &keyed{world: newWorld(t, gcpemulator.Options{}), file: filepath.Join(dir, "key.json")}
	w.tokens = httptest.NewServer(w.hanging(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, tokenSentinel)
	}))
	w.front = httptest.NewServer(w.hanging(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+tokenSentinel {
			http.Error(rw, "who are you?", http.StatusUnauthorized)
			return
		}
		w.emulator.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.tokens.Close)
	t.Cleanup(w.front.Close)
	must(t, os.WriteFile(w.file, keyFile(t, "checker", w.tokens.URL), 0o600))
	return w
}

func (w *keyed) hanging(next http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		hung := w.hung
		w.mu.Unlock()
		if hung != nil {
			// That a caller has gone shows only once its body is read.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			select {
			case <-hung:
			case <-r.Context().Done():
				return
			}
		}
		next(rw, r)
	}
}

func (w *keyed) hang(string) (restore func()) {
	hung := make(chan struct{})
	w.mu.Lock()
	w.hung = hung
	w.mu.Unlock()
	return sync.OnceFunc(func() {
		w.mu.Lock()
		w.hung = nil
		w.mu.Unlock()
		close(hung)
	})
}

// TestCheckConformsWithCredentials has whoever gives out tokens hang as well.
func TestCheckConformsWithCredentials(t *testing.T) {
	dir := t.TempDir()
	providertest.RunChecker(providertest.Go(t), func(t providertest.T) *providertest.CheckerEnv {
		w := newKeyed(t, dir)
		env := w.conformance()
		env.Provider = func(name string, o provider.Owner) provider.Provider {
			p, err := w.open(name, o, fmt.Sprintf("project: project-a\nendpoint: %s\ncredentialsFile: %s\n", w.front.URL, w.file))
			must(t, err)
			t.Cleanup(func() { _ = p.Close() })
			return p
		}
		return &providertest.CheckerEnv{
			Env: env, Targets: []string{"project-a"}, Secrets: []string{tokenSentinel},
			States: []providertest.CheckState{{Name: "no credentials", Reason: provider.CheckUnauthorized, Bring: func() func() {
				must(t, os.Rename(w.file, w.file+".away"))
				return func() { must(t, os.Rename(w.file+".away", w.file)) }
			}}},
			Say: func(text string) func() {
				return w.emulator.Inject(gcpemulator.Match{}, gcpemulator.Fault{Status: 403, Message: text})
			},
			Hang: w.hang,
		}
	})
}
