package discovery

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Who announces a body and does not send it is answered soon and keeps its connection no longer, whatever the answer.
func TestABodyThatDoesNotComeHoldsNoPlace(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	standby := newFixture(t, func(o *Options) { o.Leading = func() bool { return false } })
	var all sync.WaitGroup
	for name, tc := range map[string]struct {
		f      *fixture
		send   string
		status int
	}{
		"no token":        {f, unauthenticated("Content-Length: 50"), http.StatusUnauthorized},
		"chunked":         {f, unauthenticated("Transfer-Encoding: chunked"), http.StatusUnauthorized},
		"half of it":      {f, unauthenticated("Content-Length: 50") + "half", http.StatusUnauthorized},
		"health":          {f, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n", http.StatusOK},
		"no such path":    {f, request("POST", "/v1/nothing", "Content-Length: 50"), http.StatusNotFound},
		"odd path":        {f, request("POST", "/v1//leases", "Content-Length: 50"), http.StatusNotFound},
		"no such way":     {f, request("PUT", "/v1/leases", "Content-Length: 50"), http.StatusMethodNotAllowed},
		"not leading":     {standby, request("POST", "/v1/leases", "Content-Length: 50"), http.StatusServiceUnavailable},
		"too large":       {f, request("POST", "/v1/leases", "Content-Length: 65537"), http.StatusRequestEntityTooLarge},
		"found too large": {f, strings.TrimSuffix(chunked(sized(65537)), "0\r\n\r\n"), http.StatusRequestEntityTooLarge},
		"encoded":         {f, request("POST", "/v1/leases", "Content-Length: 50", "Content-Encoding: gzip"), http.StatusUnsupportedMediaType},
	} {
		all.Go(func() {
			conn, r := dial(t, tc.f)
			start := time.Now()
			if _, err := io.WriteString(conn, tc.send); err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			resp, err := http.ReadResponse(r, nil)
			if err != nil || resp.StatusCode != tc.status {
				t.Errorf("%s: %v, %v, want %d", name, resp, err, tc.status)
				return
			}
			_, _ = io.Copy(io.Discard, r)
			if took := time.Since(start); took > DefaultReadTimeout/2 {
				t.Errorf("%s: the connection was there for %s", name, took)
			}
		})
	}
	all.Wait()
}

// hurried counts how often an answer shortens the time for reading.
type hurried struct {
	*httptest.ResponseRecorder
	times int
}

func (h *hurried) SetReadDeadline(time.Time) error { h.times++; return nil }

// Who has sent everything is not hurried: while the answer is written, net/http reads to notice when the client hangs up.
func TestOnlyTheRestOfABodyIsHurried(t *testing.T) {
	f := newFixture(t, open)
	f.put("a")
	for want, requests := range [][]*http.Request{
		{
			httptest.NewRequest(http.MethodGet, "/v1/proxies", http.NoBody),
			httptest.NewRequest(http.MethodPost, "/v1/leases", strings.NewReader(`{}`)),
			httptest.NewRequest(http.MethodPost, "/v1/leases", strings.NewReader(`{`)),
			httptest.NewRequest(http.MethodPut, "/v1/leases", http.NoBody),
		},
		{
			httptest.NewRequest(http.MethodPut, "/v1/leases", strings.NewReader(`{}`)),
			httptest.NewRequest(http.MethodGet, "/healthz", strings.NewReader(`{}`)),
		},
	} {
		for _, r := range requests {
			h := &hurried{ResponseRecorder: httptest.NewRecorder()}
			if f.server.Handler().ServeHTTP(h, r); h.times != want {
				t.Errorf("%s %s: hurried %d times, want %d", r.Method, r.URL, h.times, want)
			}
		}
	}
}

// A body that comes late is read to its end, and the connection kept for the next request.
func TestABodyThatNobodyReadsEndsNoConnection(t *testing.T) {
	f := newFixture(t)
	for _, path := range []string{"/v1/nothing", "/v1/leases"} {
		conn, r := dial(t, f)
		for range 3 {
			write(t, conn, request("PUT", path, "Content-Length: 20000"))
			write(t, conn, strings.Repeat("x", 10_000))
			write(t, conn, strings.Repeat("x", 10_000))
			if got := readStatus(t, r); got != http.StatusNotFound && got != http.StatusMethodNotAllowed {
				t.Fatal(got)
			}
			write(t, conn, post(`{}`))
			if got := readStatus(t, r); got != http.StatusConflict {
				t.Fatal(got)
			}
		}
	}
}

// The limit on a body that was not asked for does not outlive it: the next request has the time it always had.
func TestTheNextRequestHasItsOwnTime(t *testing.T) {
	f := newFixture(t)
	conn, r := dial(t, f)
	write(t, conn, request("PUT", "/v1/leases", "Content-Length: 2")+"{}")
	if got := readStatus(t, r); got != http.StatusMethodNotAllowed {
		t.Fatal(got)
	}
	write(t, conn, strings.TrimSuffix(post(`{}`), "}"))
	if err := conn.SetReadDeadline(time.Now().Add(restTime + 100*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if b, err := r.Peek(1); err == nil {
		t.Fatalf("an answer before the request has ended: %q", b)
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	write(t, conn, "}")
	if got := readStatus(t, r); got != http.StatusConflict {
		t.Error(got)
	}
}
