package gcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Who does not give out tokens for now is not one who refuses them, and nothing of what is said is repeated.
func TestTokensThatAreNotGivenOut(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter) {
		return func(rw http.ResponseWriter) {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			_, _ = rw.Write([]byte(body))
		}
	}
	for _, tc := range []struct {
		reason string
		answer func(http.ResponseWriter)
		class  error
		why    string
	}{
		{"the key was revoked", answer(400, `{"error":"invalid_grant","error_description":"sentinel"}`), provider.ErrDenied, ""},
		{"not allowed", answer(401, `sentinel`), provider.ErrDenied, ""},
		{"a page", answer(200, `<html>sentinel</html>`), provider.ErrDenied, ""},
		{"500", answer(500, `sentinel`), provider.ErrTransient, provider.ReasonUnreachable},
		{"502", answer(502, `sentinel`), provider.ErrTransient, provider.ReasonUnreachable},
		{"503", answer(503, `sentinel`), provider.ErrTransient, provider.ReasonUnreachable},
		{"429", answer(429, `sentinel`), provider.ErrTransient, provider.ReasonUnreachable},
		{"a reset", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, provider.ErrTransient, provider.ReasonUnreachable},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newGuarded(t)
			w.write(w.key(t, "first"))
			w.tokenErr = tc.answer
			err := w.get()
			expect(t, "Get", err, tc.class, tc.why)
			s := w.p.Check(t.Context())
			for _, text := range []string{err.Error(), s[0].Message} {
				if strings.Contains(text, "sentinel") || strings.Contains(text, "assertion") {
					t.Errorf("%q repeats what was said", text)
				}
			}
			if want := map[bool]string{true: provider.CheckUnauthorized, false: provider.CheckUnreachable}[tc.class == provider.ErrDenied]; s[0].Reason != want {
				t.Errorf("the check says %+v, want %s", s, want)
			}
			w.mu.Lock()
			w.tokenErr = nil
			w.mu.Unlock()
			if err := w.get(); err != nil {
				t.Errorf("once tokens are given out again: %v", err)
			}
		})
	}
}

func TestNobodyGivesOutTokens(t *testing.T) {
	w := newGuarded(t)
	s := httptest.NewServer(http.NotFoundHandler())
	w.tokens = s.URL
	s.Close()
	w.write(w.key(t, "first"))
	expect(t, "Get", w.get(), provider.ErrTransient, provider.ReasonUnreachable)
}

func TestWaitingForATokenEndsWithTheCall(t *testing.T) {
	w := newGuarded(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.tokenErr = func(http.ResponseWriter) { <-release }
	w.window.CallTimeout = 100 * time.Millisecond
	w.write(w.key(t, "first"))
	p, err := w.open(entry, owner, "project: project-a\nendpoint: "+w.emulator.URL+"\ncredentialsFile: "+w.file+"\n")
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	began := time.Now()
	_, err = p.Get(t.Context(), w.ref(w.request(), 1))
	expect(t, "Get", err, provider.ErrTransient, "")
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %s", d)
	}
}
