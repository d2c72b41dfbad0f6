package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clocks "k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// tenant is a cluster of somebody else's that takes one token at a time, with the kubeconfig that leads to it.
type tenant struct {
	t      *testing.T
	server *httptest.Server
	file   string

	mu    sync.Mutex
	token string
	seen  int
}

func newTenant(t *testing.T) *tenant {
	t.Helper()
	x := &tenant{t: t, token: "token-1", file: filepath.Join(t.TempDir(), "kubeconfig")}
	x.server = httptest.NewTLSServer(http.HandlerFunc(x.serve)) // tokens go to such ones alone
	t.Cleanup(x.server.Close)
	x.write(x.server.URL, "token-1")
	return x
}

func (x *tenant) serve(w http.ResponseWriter, r *http.Request) {
	x.mu.Lock()
	x.seen++
	accepted := r.Header.Get("Authorization") == "Bearer "+x.token
	x.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if !accepted {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
		return
	}
	kind := "PodList"
	if strings.HasSuffix(r.URL.Path, "/secrets") {
		kind = "SecretList"
	}
	fmt.Fprintf(w, `{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`, kind)
}

func (x *tenant) accept(token string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.token = token
}

func (x *tenant) requests() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen
}

func kubeconfigOf(server, token string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {insecure-skip-tls-verify: true, server: %q}}]\nusers: [{name: u, user: {token: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\n", server, token)
}

// write replaces the kubeconfig as a whole.
func (x *tenant) write(server, token string) { x.t.Helper(); x.text(kubeconfigOf(server, token)) }

func (x *tenant) text(text string) {
	x.t.Helper()
	next := x.file + ".new"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, x.file)); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tenant) provider(config string) *kubernetes.Provider {
	x.t.Helper()
	block, err := registry.ParseBlock(kubernetes.Type, []byte("kubeconfig: "+x.file+"\n"+config))
	if err != nil {
		x.t.Fatal(err)
	}
	p, err := kubernetes.New(x.t.Context(), provider.Options{
		Name: "tenant", Block: block, Owner: provider.Owner{Installation: "i", Cluster: "c"},
		Window: provider.Window{Clock: clocks.RealClock{}, CallTimeout: 10 * time.Second},
	})
	if err != nil {
		x.t.Fatal(err)
	}
	return p.(*kubernetes.Provider)
}

func TestARotatedKubeconfigTakesEffect(t *testing.T) {
	t.Parallel()
	x, stranger := newTenant(t), newTenant(t)
	p := x.provider("")
	t.Cleanup(func() { _ = p.Close() })
	list := func(when string, want error) {
		t.Helper()
		if _, err := p.ListByTag(t.Context()); !errors.Is(provider.Class(err), want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	list("at first", nil)
	x.accept("token-2")
	list("revoked", provider.ErrDenied)
	for _, spoiled := range []struct {
		what  string
		spoil func()
	}{
		{"half written", func() { x.text(kubeconfigOf(x.server.URL, "token-2")[:60]) }},
		{"empty", func() { x.text("") }},
		{"gone", func() {
			if err := os.Remove(x.file); err != nil {
				t.Fatal(err)
			}
		}},
		{"of another cluster", func() { x.write(stranger.server.URL, "token-of-another-cluster") }},
	} {
		spoiled.spoil()
		x.accept("token-1")
		list(spoiled.what+", the old credentials", nil)
		x.accept("token-2")
		list(spoiled.what+", the old credentials, revoked", provider.ErrDenied)
	}
	if got := stranger.requests(); got > 0 {
		t.Errorf("%d requests went to another cluster, where the instances are not", got)
	}
	x.write(x.server.URL, "token-2")
	list("rotated", nil)

	// Exchanged as the kubelet does: behind a symlink, with a file of the same size.
	dir := filepath.Dir(x.file)
	publish := func(version, token string) {
		t.Helper()
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, version), 0o700),
			os.WriteFile(filepath.Join(dir, version, "kubeconfig"), []byte(kubeconfigOf(x.server.URL, token)), 0o600),
			os.Symlink(version, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("v1", "token-2")
	if err := errors.Join(os.Remove(x.file), os.Symlink("..data/kubeconfig", x.file)); err != nil {
		t.Fatal(err)
	}
	list("behind a symlink", nil)
	publish("v2", "token-3")
	x.accept("token-3")
	list("exchanged behind a symlink", nil)
}

// TestATokenFileIsReadByTheLibrary: what a kubeconfig names is followed by client-go, within a minute.
func TestATokenFileIsReadByTheLibrary(t *testing.T) {
	t.Parallel()
	x := newTenant(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token-1"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.text(strings.Replace(kubeconfigOf(x.server.URL, "T"), `token: "T"`, fmt.Sprintf("tokenFile: %q", token), 1))
	p := x.provider("")
	t.Cleanup(func() { _ = p.Close() })
	if _, err := p.ListByTag(t.Context()); err != nil {
		t.Fatal(err)
	}
}
