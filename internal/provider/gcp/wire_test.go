package gcp_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// failing makes those methods fail, and spares what a call needs before them.
func (w *world) failing(f gcpemulator.Fault, calls ...string) {
	for _, call := range calls {
		w.emulator.Inject(gcpemulator.On(call), f)
	}
}

func TestWhatHappensOnTheWire(t *testing.T) {
	quota := gcpemulator.Fault{Status: 403, Reason: "quotaExceeded", Message: "Quota 'CPUS' exceeded."}
	for _, tc := range []struct {
		reason string
		fault  gcpemulator.Fault
		class  error
		why    string
		retry  time.Duration
		says   string
	}{
		{"quota", quota, provider.ErrQuotaExceeded, "", 0, "Quota 'CPUS'"},
		{"rate limit by 403", gcpemulator.Fault{Status: 403, Reason: "rateLimitExceeded", RetryAfter: "3"}, provider.ErrTransient, "", 3 * time.Second, "rateLimitExceeded"},
		{"rate limit", gcpemulator.Fault{Status: 429, RetryAfter: "3600"}, provider.ErrTransient, "", time.Hour, "429"},
		{"rate limit, at once", gcpemulator.Fault{Status: 429, RetryAfter: "0"}, provider.ErrTransient, "", 0, "429"},
		{"rate limit, garbage", gcpemulator.Fault{Status: 429, RetryAfter: "in a while"}, provider.ErrTransient, "", 0, "429"},
		{"500", gcpemulator.Fault{Status: 500}, provider.ErrTransient, "", 0, "500"},
		{"503 with a delay", gcpemulator.Fault{Status: 503, RetryAfter: "20"}, provider.ErrTransient, "", 20 * time.Second, "503"},
		{"a gateway's page", gcpemulator.Fault{HTML: true}, provider.ErrTransient, "", 0, "502 Bad Gateway"},
		{"a page with 200", gcpemulator.Fault{HTML: true, Status: 200}, provider.ErrTransient, "", 0, "invalid character"},
		{"half an answer", gcpemulator.Fault{Body: `{"id": "1`, Status: 200}, provider.ErrTransient, "", 0, "unexpected end of JSON"},
		{"a reset", gcpemulator.Fault{Reset: true}, provider.ErrTransient, provider.ReasonUnreachable, 0, ""},
		{"401", gcpemulator.Fault{Status: 401}, provider.ErrDenied, "", 0, "401"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			p := w.provider()
			ref, _ := w.create(p)
			req := w.request()
			w.failing(tc.fault, "instances.insert", "instances.delete", "instances.aggregatedList")
			check := func(op string, err error) {
				t.Helper()
				expect(t, op, err, tc.class, tc.why, tc.says, "provider "+entry+": "+op)
				if got := provider.RetryAfter(err); got != tc.retry {
					t.Errorf("%s asks for %s, want %s", op, got, tc.retry)
				}
			}
			check("create", p.Create(t.Context(), req, w.ref(req, 1)))
			check("delete", p.Delete(t.Context(), ref))
			_, err := p.ListByTag(t.Context())
			check("list", err)
			w.failing(tc.fault, "instances.get")
			_, err = p.Get(t.Context(), ref)
			check("get", err)
		})
	}
}

// A call that is not answered ends with its context, and with the time that one may take.
func TestACallThatHangs(t *testing.T) {
	for _, bound := range []string{"deadline", "cancellation", "call timeout"} {
		for _, call := range []string{"instances.insert", "instances.get", "zoneOperations.list", "disks.get", "instances.delete", "instances.aggregatedList", "disks.aggregatedList"} {
			t.Run(call+" by "+bound, func(t *testing.T) {
				w := newT(t, gcpemulator.Options{})
				ref, _ := w.create(w.provider())
				gone := w.ref(w.request(), 1)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f := gcpemulator.Fault{Hang: true}
				switch bound {
				case "deadline":
					ctx, cancel = context.WithTimeout(ctx, 100*time.Millisecond)
					defer cancel()
				case "call timeout":
					w.window.CallTimeout = 100 * time.Millisecond
				default:
					f.OnCall = cancel
				}
				p := w.provider()
				w.emulator.Inject(gcpemulator.On(call), f)
				var err error
				began := time.Now()
				switch call {
				case "instances.insert":
					req := w.request()
					err = p.Create(ctx, req, w.ref(req, 1))
				case "instances.delete":
					err = p.Delete(ctx, ref)
				case "instances.aggregatedList", "disks.aggregatedList":
					_, err = p.ListByTag(ctx)
				case "instances.get":
					_, err = p.Get(ctx, ref)
				default:
					_, err = p.Get(ctx, gone)
				}
				if d := time.Since(began); d > 10*time.Second {
					t.Errorf("it took %s", d)
				}
				expect(t, call, err, provider.ErrTransient, "")
			})
		}
	}
}

// A token must not follow a redirect to somebody else.
func TestRedirectsAreNotFollowed(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	followed := false
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed = true }))
	front := serve(t, http.RedirectHandler(other, http.StatusTemporaryRedirect))
	p, err := w.open(entry, owner, "project: project-a\nanonymous: true\nendpoint: "+front+"\n")
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	_, err = p.Get(t.Context(), w.ref(w.request(), 1))
	expect(t, "Get", err, provider.ErrTransient, "", "307")
	if followed {
		t.Error("the redirect was followed")
	}
}

func TestAnAPIThatIsNotThere(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	must(w.t, w.emulator.Close())
	_, err := p.Get(t.Context(), w.ref(w.request(), 1))
	expect(t, "Get", err, provider.ErrTransient, provider.ReasonUnreachable, "refused")
}
