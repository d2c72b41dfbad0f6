package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const goodLease = `{"leaseID":"L","proxy":{"namespace":"ns","name":"a","url":"http://h.test:1"},"expiresAt":"2030-01-02T03:04:05Z","ttlSeconds":60,"epoch":"E"}`

// nonsense are answers of status 201 with the member that each gets wrong.
var nonsense = map[string]string{
	``:                           "not JSON",
	`<html>`:                     "not JSON",
	`[]`:                         "not a JSON object",
	`null`:                       "leaseID",
	`{}`:                         "leaseID",
	goodLease + `{}`:             "not JSON",
	strings.Repeat(`[`, 100_000): "JSON",
	strings.Replace(goodLease, `"L"`, `7`, 1):                                                                 "leaseID",
	strings.Replace(goodLease, `"L"`, `"a\nb"`, 1):                                                            "leaseID",
	strings.Replace(goodLease, `"L"`, `"`+strings.Repeat("x", 300)+`"`, 1):                                    "leaseID",
	strings.Replace(goodLease, `"E"`, `""`, 1):                                                                "epoch",
	strings.Replace(goodLease, `60`, `-1`, 1):                                                                 "ttlSeconds",
	strings.Replace(goodLease, `60`, `0`, 1):                                                                  "ttlSeconds",
	strings.Replace(goodLease, `60`, `1.5`, 1):                                                                "ttlSeconds",
	strings.Replace(goodLease, `60`, `9223372036854775807`, 1):                                                "ttlSeconds",
	strings.Replace(goodLease, `60`, `99999999999999999999`, 1):                                               "ttlSeconds",
	strings.Replace(goodLease, `60`, `null`, 1):                                                               "ttlSeconds",
	strings.Replace(goodLease, `2030-01-02T03:04:05Z`, `tomorrow`, 1):                                         "expiresAt",
	strings.Replace(goodLease, `http://h.test:1`, ``, 1):                                                      "proxy.url",
	strings.Replace(goodLease, `http://h.test:1`, `h.test:1`, 1):                                              "proxy.url",
	strings.Replace(goodLease, `http://h.test:1`, `http://h.test`, 1):                                         "proxy.url",
	strings.Replace(goodLease, `http://h.test:1`, `http://u:p@h.test:1`, 1):                                   "proxy.url",
	strings.Replace(goodLease, `http://h.test:1`, `http://h.test:1/x`, 1):                                     "proxy.url",
	strings.Replace(goodLease, `http://h.test:1`, `file:///etc/passwd`, 1):                                    "proxy.url",
	strings.Replace(goodLease, `"name":"a"`, `"name":"a/b"`, 1):                                               "proxy.name",
	strings.Replace(goodLease, `"name":"a"`, `"name":"a","port":70000`, 1):                                    "proxy.port",
	strings.Replace(goodLease, `"name":"a"`, `"name":"a","latencyMillis":-1`, 1):                              "proxy.latencyMillis",
	strings.Replace(goodLease, `"name":"a"`, `"name":"a","activeLeases":-1`, 1):                               "proxy.activeLeases",
	strings.Replace(goodLease, `"name":"a"`, `"name":"a","attributes":{"k":1}`, 1):                            "proxy.attributes",
	strings.Replace(goodLease, `"name":"a"`, `"name":"a","auth":{"username":"a:b","password":"SENTINEL"}`, 1): "proxy.auth.username",
}

func TestNonsenseNamesTheMember(t *testing.T) {
	for body, member := range nonsense {
		base := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodDelete {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, body)
		})
		c := newClient(t, base)
		_, err := c.Acquire(t.Context(), Request{})
		shown := body[:min(len(body), 200)]
		if !errors.Is(err, ErrBadAnswer) || !strings.Contains(err.Error(), member) {
			t.Errorf("%s: error is %v, want one that names %s", shown, err, member)
		} else if strings.Contains(err.Error(), "SENTINEL") || len(err.Error()) > 500 {
			t.Errorf("%s: error is %v", shown, err)
		}
	}
}

func newClient(t testing.TB, base string) *Client {
	t.Helper()
	c, err := New(Options{BaseURL: base})
	must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestStrangeStatusesAreErrors(t *testing.T) {
	for _, status := range []int{200, 202, 204, 301, 307, 400, 404, 409, 418, 500, 501} {
		base := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://192.0.2.1/")
			w.WriteHeader(status)
		})
		c := newClient(t, base)
		if _, err := c.Acquire(t.Context(), Request{}); err == nil {
			t.Errorf("%d is taken for a lease", status)
		}
	}
}

func TestRefusalsAreBounded(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"no_match","message":"x"}`:                                             "considered",
		`{"error":"no_match","considered":-1}`:                                           "considered",
		`{"error":"no_match","considered":1,"freeAt":"soon"}`:                            "freeAt",
		`{"error":"draining","message":"` + strings.Repeat("é", 5000) + `\n\u001b[31m"}`: "draining",
		`{"error":"` + strings.Repeat("x", 100) + `"}`:                                   "409",
		`{"error":"Bad Code\n"}`:                                                         "409",
	} {
		base := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, body)
		})
		c := newClient(t, base)
		_, err := c.Acquire(t.Context(), Request{})
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%.60s: error is %q", body, err)
		}
	}
}

// endless never stops answering.
type endless struct{ sent int }

func (e *endless) Read(p []byte) (int, error) {
	e.sent += len(p)
	return copy(p, bytes.Repeat([]byte("x"), len(p))), nil
}

func TestAnEndlessAnswerIsGivenUp(t *testing.T) {
	base := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.Copy(w, &endless{})
	})
	c := newClient(t, base)
	_, err := c.Proxy(t.Context(), "ns", "a")
	wantIs(t, err, ErrBadAnswer)
	if _, err = c.Acquire(t.Context(), Request{}); !errors.Is(err, ErrBadAnswer) {
		t.Errorf("error is %v", err)
	}
	for _, err := range c.Proxies(t.Context(), ListOptions{PageSize: 4}) {
		wantIs(t, err, ErrBadAnswer)
	}
}

func TestAListThatGoesOnForEverEnds(t *testing.T) {
	page := `{"proxies":[{"namespace":"ns","name":"a"}],"count":1,"continue":"again"}`
	base := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	c := newClient(t, base)
	var last error
	n := 0
	for _, err := range c.Proxies(t.Context(), ListOptions{}) {
		last = err
		n++
	}
	if !errors.Is(last, ErrBadAnswer) || !strings.Contains(last.Error(), "proxies[0].name") || n != 2 {
		t.Errorf("%d items, then %v", n, last)
	}
}

func TestProxiesComePageByPage(t *testing.T) {
	r := newRig(t)
	for i := range 25 {
		r.put(fmt.Sprintf("p%02d", i))
	}
	r.put("z", draining)
	c := r.client()
	var names []string
	healthy := true
	for p, err := range c.Proxies(t.Context(), ListOptions{
		Namespace: "ns", Selector: map[string]string{"country": "de"}, Healthy: &healthy, PageSize: 10,
	}) {
		must(t, err)
		if p.Auth != nil {
			t.Fatal("credentials in a list")
		}
		names = append(names, p.Name)
	}
	if len(names) != 26 || names[0] != "p00" || r.count("GET", "/v1/proxies") != 3 {
		t.Errorf("%d names %v in %d pages", len(names), names, r.count("GET", "/v1/proxies"))
	}
	for range c.Proxies(t.Context(), ListOptions{}) {
		break
	}
	for _, err := range c.Proxies(t.Context(), ListOptions{PageSize: 5000}) {
		if err == nil {
			t.Error("a page of 5000 is taken")
		}
	}
	p, err := c.Proxy(t.Context(), "ns", "p07")
	if err != nil || p.Name != "p07" || p.IP != "p07.proxies.test" || p.Port != 3128 {
		t.Errorf("%+v, %v", p, err)
	}
	_, err = c.Proxy(t.Context(), "ns", "nobody")
	wantIs(t, err, ErrNotFound)
	if _, err = c.Proxy(t.Context(), "..", "x"); err == nil {
		t.Error(".. is a namespace")
	}
}

func FuzzAnswers(f *testing.F) {
	for body := range nonsense {
		f.Add([]byte(body), 201)
		f.Add([]byte(body), 409)
	}
	f.Add([]byte(goodLease), 200)
	f.Add([]byte(`{"error":"no_match","considered":3,"freeAt":"2030-01-02T03:04:05Z"}`), 409)
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		a := &answer{status: status, header: http.Header{"Retry-After": {string(body)}}, body: body}
		if g, err := a.grant(); err == nil {
			if g.id == "" || g.ttl < 0 || g.proxy.proxyURL() == nil {
				t.Errorf("%+v", g)
			}
		} else if !errors.Is(err, ErrBadAnswer) {
			t.Errorf("%v", err)
		}
		if err := a.failure(); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%v", err)
		} else if d := retryAfterOf(err); d < 0 || d > maxRetryAfter {
			t.Errorf("wait of %v", d)
		}
	})
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999999999999999": 0, "4000000000": time.Hour,
		"Wed, 02 Jan 2030 03:04:15 GMT": 10 * time.Second, "Wed, 02 Jan 2030 03:04:00 GMT": 0,
	} {
		if got := parseRetryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
}
