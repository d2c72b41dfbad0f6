package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kubernetes"
)

// checked makes the check twice and returns what both say.
func checked(ctx context.Context, t *testing.T, p *kubernetes.Provider) provider.TargetStatus {
	t.Helper()
	var last []provider.TargetStatus
	for range 2 {
		got := p.Check(ctx)
		if len(got) != 1 || got[0].Latency <= 0 {
			t.Fatalf("the check says %+v", got)
		}
		got[0].Latency = 0
		if last != nil && !reflect.DeepEqual(got, last) {
			t.Errorf("the check says\n%+v\nand then\n%+v", last, got)
		}
		last = got
	}
	s := last[0]
	if s.Target != "apiserver" || s.Ready != (s.Reason == provider.CheckReachable) || s.Ready != (s.Message == "") || len(s.Message) > 512 || len(s.Details) > 32 {
		t.Errorf("the check says %+v", s)
	}
	return s
}

func quotas(r *http.Request) bool  { return on(http.MethodGet, "resourcequotas")(r) }
func reviews(r *http.Request) bool { return on(http.MethodPost, "selfsubjectaccessreviews")(r) }
func version(r *http.Request) bool { return r.URL.Path == "/version" }

// TestCheckSaysWhatIsWrong with what kind of request, and where.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	unauthorized := refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil)
	forbidden := refuse(http.StatusForbidden, "Forbidden", "you cannot do this", nil)
	broken := refuse(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out", nil)
	page := say(http.StatusOK, "text/html", "<html><title>Log in</title></html>")
	lost := func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errLost }
	listsSecrets := on(http.MethodGet, "secrets")
	for _, tc := range []struct {
		name   string
		match  func(*http.Request) bool
		answer func(*http.Request, http.RoundTripper) (*http.Response, error)
		reason string
		// mentions is what the message must hold; NS stands for the namespace.
		mentions []string
	}{
		{"401", always, unauthorized, provider.CheckUnauthorized, nil},
		{"401 on a list", listsPods, unauthorized, provider.CheckUnauthorized, []string{"namespace NS", "list pods"}},
		{"403 on the version", version, forbidden, provider.CheckForbidden, []string{"version", "you cannot do this"}},
		{"403 on Pods", listsPods, forbidden, provider.CheckForbidden, []string{"namespace NS", "list pods", "you cannot do this"}},
		{"403 on Secrets", listsSecrets, forbidden, provider.CheckForbidden, []string{"namespace NS", "list secrets"}},
		{"403 on the question what may be done", reviews, forbidden, provider.CheckForbidden, []string{"namespace NS", "selfsubjectaccessreviews"}},
		{"500", always, broken, provider.CheckAPIError, []string{"etcdserver"}},
		{"500 on a list", listsPods, broken, provider.CheckAPIError, []string{"namespace NS", "list pods", "etcdserver"}},
		{"429", listsPods, refuse(http.StatusTooManyRequests, "", "slow down", http.Header{"Retry-After": {"7"}}), provider.CheckAPIError, []string{"namespace NS"}},
		{"404", version, say(http.StatusNotFound, "text/plain", "404 page not found"), provider.CheckAPIError, []string{"version"}},
		{"a page", always, page, provider.CheckAPIError, []string{"not that of a Kubernetes API server"}},
		{"a page instead of a list", listsPods, page, provider.CheckAPIError, []string{"namespace NS", "list pods"}},
		{"something else in JSON", version, say(http.StatusOK, "application/json", `{"name":"elasticsearch"}`), provider.CheckAPIError, []string{"not that of a Kubernetes API server"}},
		{"no answer", always, lost, provider.CheckUnreachable, []string{"the answer is lost"}},
		{"no answer to a list", listsPods, lost, provider.CheckUnreachable, []string{"namespace NS", "the answer is lost"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newT(t)
			w.wire.add(&fault{match: tc.match, do: tc.answer})
			s := checked(t.Context(), t, w.provider())
			if s.Reason != tc.reason {
				t.Errorf("the reason is %s (%s), want %s", s.Reason, s.Message, tc.reason)
			}
			for _, want := range tc.mentions {
				if want = strings.ReplaceAll(want, "NS", w.namespace); !strings.Contains(s.Message, want) {
					t.Errorf("the message is %q, want a mention of %q", s.Message, want)
				}
			}
		})
	}
}

// TestCheckTellsNoSecrets that a server or what is before it may say.
func TestCheckTellsNoSecrets(t *testing.T) {
	w := newT(t)
	said := strings.Repeat("Bearer eyJhbGciOi.sentinel.x refused, see https://u:sentinel@host/?sig=sentinel, password=sentinel. ", 20)
	w.wire.add(&fault{match: listsPods, do: refuse(http.StatusForbidden, "Forbidden", said, nil)})
	s := checked(t.Context(), t, w.provider())
	if strings.Contains(s.Message, "sentinel") || !strings.Contains(s.Message, "refused, see") {
		t.Errorf("the message is %q", s.Message)
	}
}

func TestCheckOfAServerThatIsNotThere(t *testing.T) {
	w := newT(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t0(t), err)
	w.config = &rest.Config{Host: "http://" + l.Addr().String()}
	must(t0(t), l.Close())
	s := checked(t.Context(), t, w.provider())
	if s.Reason != provider.CheckUnreachable || !strings.Contains(s.Message, "refused") {
		t.Errorf("the check says %+v", s)
	}
}

// TestCheckEndsWithItsContext, whichever request hangs. What the operator does not need is no reason to be in doubt.
func TestCheckEndsWithItsContext(t *testing.T) {
	for _, tc := range []struct {
		name   string
		match  func(*http.Request) bool
		reason string
	}{
		{"the version", version, provider.CheckTimeout},
		{"a list", listsPods, provider.CheckTimeout},
		{"the question what may be done", reviews, provider.CheckTimeout},
		{"quotas", quotas, provider.CheckReachable},
	} {
		for _, bound := range []string{"deadline", "cancellation", "call timeout"} {
			t.Run(tc.name+" by "+bound, func(t *testing.T) {
				w := newT(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch bound {
				case "deadline":
					ctx, cancel = context.WithTimeout(ctx, time.Second)
					defer cancel()
				case "call timeout":
					w.window.CallTimeout = time.Second
				}
				w.wire.add(&fault{match: tc.match, do: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
					if bound == "cancellation" {
						cancel()
					}
					<-r.Context().Done()
					return nil, r.Context().Err()
				}})
				began := time.Now()
				got := w.provider().Check(ctx)
				if d := time.Since(began); d > 5*time.Second {
					t.Errorf("it took %s", d)
				}
				if len(got) != 1 || got[0].Reason != tc.reason || got[0].Ready != (tc.reason == provider.CheckReachable) {
					t.Errorf("the check says %+v", got)
				}
			})
		}
	}
}

// TestCheckIsCheap: what it lists is one object of each kind.
func TestCheckIsCheap(t *testing.T) {
	w := newT(t)
	w.extra += "namespace: " + w.namespace + "\n"
	var asked []string
	w.wire.add(&fault{match: always, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if q := r.URL.Query(); listsPods(r) || on(http.MethodGet, "secrets")(r) {
			if q.Get("limit") != "1" || !strings.Contains(q.Get("labelSelector"), owner.Installation) {
				t.Errorf("asked was %s", r.URL)
			}
		}
		asked = append(asked, r.Method+" "+regexp.MustCompile(`.*/`).ReplaceAllString(r.URL.Path, ""))
		return next.RoundTrip(r)
	}})
	if s := w.provider().Check(t.Context()); !s[0].Ready {
		t.Errorf("the check says %+v", s)
	}
	want := []string{"GET version", "GET secrets", "GET pods", "POST selfsubjectaccessreviews", "POST selfsubjectaccessreviews", "GET resourcequotas"}
	if fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("asked was %q, want %q", asked, want)
	}
}
