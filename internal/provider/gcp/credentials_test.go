package gcp_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func serve(t *testing.T, h http.Handler) (endpoint string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// guarded is a world whose API wants to know who calls, with a token endpoint that gives everybody a token with their name.
type guarded struct {
	*world
	p        *gcp.Provider
	file     string
	tokens   string
	mu       sync.Mutex
	seen     []string // who has called the API
	asked    int      // how often a token was asked for
	tokenErr func(http.ResponseWriter)
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	w := &guarded{world: newT(t, gcpemulator.Options{}), file: filepath.Join(t.TempDir(), "key.json")}
	w.tokens = serve(t, http.HandlerFunc(w.token))
	front := serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Header.Get("Authorization"))
		w.mu.Unlock()
		w.emulator.ServeHTTP(rw, r)
	}))
	p, err := w.open(entry, owner, fmt.Sprintf("project: project-a\nendpoint: %s\ncredentialsFile: %s\n", front, w.file))
	must(w.t, err)
	w.p = p
	t.Cleanup(func() { _ = p.Close() })
	return w
}

// token answers a signed assertion with a token that names who has signed it.
func (w *guarded) token(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked++
	fail := w.tokenErr
	w.mu.Unlock()
	if fail != nil {
		fail(rw)
		return
	}
	part := strings.Split(r.FormValue("assertion"), ".")
	var claims struct{ Iss, Scope string }
	data, err := base64.RawURLEncoding.DecodeString(part[min(1, len(part)-1)])
	if err != nil || json.Unmarshal(data, &claims) != nil || claims.Scope != "https://www.googleapis.com/auth/compute" {
		http.Error(rw, "bad assertion", http.StatusBadRequest)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(rw, `{"access_token":"token-of-%s","token_type":"Bearer","expires_in":3600}`, claims.Iss)
}

func (w *guarded) key(t *testing.T, email string) []byte {
	t.Helper()
	return keyFile(w.t, email, w.tokens)
}

// keyFile is a service account's key file.
func keyFile(t providertest.T, email, tokens string) []byte {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(k)
	must(t, err)
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": email, "private_key_id": "sentinel-id", "token_uri": tokens,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	must(t, err)
	return data
}

func (w *guarded) write(data []byte) { must(w.t, os.WriteFile(w.file, data, 0o600)) }

func (w *guarded) get() error {
	_, err := w.p.Get(w.t.Context(), w.ref(w.request(), 1))
	return err
}

func (w *guarded) callers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Compact(slices.Clone(w.seen))
	w.seen = nil
	return all
}

// A key that is exchanged is used with the next call, however it is exchanged; a token is asked for once.
func TestKeysAreExchangedWithoutARestart(t *testing.T) {
	w := newGuarded(t)
	w.write(w.key(t, "first"))
	must(w.t, w.get())
	must(w.t, w.get())
	if got := w.callers(); !slices.Equal(got, []string{"Bearer token-of-first"}) || w.asked != 1 {
		t.Errorf("%q, after %d tokens", got, w.asked)
	}
	// By a rename, with size and time as they were.
	info, err := os.Stat(w.file)
	must(w.t, err)
	data := w.key(t, "other")
	data = append(data, strings.Repeat(" ", max(0, int(info.Size())-len(data)))...)
	next := w.file + ".next"
	must(w.t, os.WriteFile(next, data, 0o600))
	must(w.t, os.Chtimes(next, info.ModTime(), info.ModTime()))
	must(w.t, os.Rename(next, w.file))
	must(w.t, w.get())
	if got := w.callers(); !slices.Equal(got, []string{"Bearer token-of-other"}) {
		t.Errorf("after a rename: %q", got)
	}
	// In place.
	w.write(w.key(t, "third"))
	later := info.ModTime().Add(time.Second)
	must(w.t, os.Chtimes(w.file, later, later))
	must(w.t, w.get())
	if got := w.callers(); !slices.Equal(got, []string{"Bearer token-of-third"}) {
		t.Errorf("in place: %q", got)
	}
}

func TestCredentialsThatAreOfNoUse(t *testing.T) {
	w := newGuarded(t)
	good := string(w.key(t, "first"))
	for _, tc := range []struct{ reason, content, says string }{
		{"missing", "", "no such file"},
		{"not JSON", "sentinel", "not JSON"},
		{"empty", "{}", `type ""`},
		{"of another type", `{"type": "gdch_service_account", "private_key": "sentinel"}`, "gdch_service_account"},
		{"without a key", `{"type": "service_account", "client_email": "sentinel", "token_uri": "` + w.tokens + `"}`, "credentials"},
		{"with half a key", strings.Replace(good, "BEGIN PRIVATE KEY", "BEGIN PRIVATE", 1), "credentials"},
		{"too large", good + strings.Repeat(" ", 64<<10), "larger"},
	} {
		_ = os.Remove(w.file)
		if tc.content != "" {
			w.write([]byte(tc.content))
		}
		err := w.get()
		expect(t, tc.reason, err, provider.ErrDenied, "", tc.says)
		if err != nil && (strings.Contains(err.Error(), "sentinel") || strings.Contains(err.Error(), "MII")) {
			t.Errorf("%s: %v repeats what is in the file", tc.reason, err)
		}
		if s := w.p.Check(t.Context()); s[0].Reason != provider.CheckUnauthorized || strings.Contains(s[0].Message, "sentinel") {
			t.Errorf("%s: the check says %+v", tc.reason, s)
		}
	}
	if got := w.callers(); len(got) > 0 {
		t.Errorf("%q have called", got)
	}
	w.write([]byte(good))
	must(w.t, w.get())
}
