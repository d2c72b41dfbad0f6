//go:build !e2e

package kubernetes_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// checkToken is what the operator would show to an API server that asks for it.
const checkToken = "sentinel-token-c41b"

// TestCheckConforms runs the suite for checkers. It is not parallel: the suite counts goroutines.
func TestCheckConforms(t *testing.T) {
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.RunChecker(seen, func(t providertest.T) *providertest.CheckerEnv {
		w := newWorld(t)
		w.config = rest.CopyConfig(w.config)
		w.config.BearerToken = checkToken // the client's certificate is what counts here
		env := w.conformance()
		env.HoldSend = func() (<-chan struct{}, func()) { return w.wire.hold(on(http.MethodPost, "pods")) }
		suffer := func(match func(*http.Request) bool, do func(*http.Request, http.RoundTripper) (*http.Response, error)) func() func() {
			return func() func() { return w.wire.add(&fault{match: match, do: do}) }
		}
		lost := func(*http.Request, http.RoundTripper) (*http.Response, error) { return nil, errLost }
		return &providertest.CheckerEnv{
			Env: env, Targets: []string{"apiserver"}, IDs: map[string]string{"apiserver": w.namespace + "/" + provider.NameFromUID("x")},
			Secrets: []string{checkToken},
			States: []providertest.CheckState{
				{Name: "401", Reason: provider.CheckUnauthorized, Bring: suffer(always, refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized", nil))},
				{Name: "403", Reason: provider.CheckForbidden, Bring: suffer(on(http.MethodGet, "pods"), refuse(http.StatusForbidden, "Forbidden", "you cannot do this", nil))},
				{Name: "429", Reason: provider.CheckAPIError, Bring: suffer(always, refuse(http.StatusTooManyRequests, "", "too many requests", nil))},
				{Name: "500", Reason: provider.CheckAPIError, Bring: suffer(always, refuse(http.StatusInternalServerError, "InternalError", "etcdserver: request timed out", nil))},
				{Name: "a page", Reason: provider.CheckAPIError, Bring: suffer(always, say(http.StatusOK, "text/html", "<html><title>Log in</title></html>"))},
				{Name: "no answer", Reason: provider.CheckUnreachable, Bring: suffer(always, lost)},
				{Name: "a strange version", Reason: provider.CheckReachable, Bring: suffer(version, say(http.StatusOK, "application/json", `{"gitVersion": "v1.`+string(slices.Repeat([]byte("9"), 500))+`"}`))},
			},
			Say: func(text string) func() {
				body, err := json.Marshal(metav1.Status{
					TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
					Message: text, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
				})
				must(w.t, err)
				return w.wire.add(&fault{match: always, do: say(http.StatusForbidden, "application/json", string(body))})
			},
			Hang: func(string) func() {
				free := make(chan struct{})
				mend := w.wire.add(&fault{match: always, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
					select {
					case <-free:
						return next.RoundTrip(r)
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				}})
				return sync.OnceFunc(func() { mend(); close(free) })
			},
		}
	})
	if len(*seen.all) > 0 {
		t.Errorf("skipped were %q", *seen.all)
	}
}
