package scrapeauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/scrapeauth"
)

// cluster reviews tokens: scraper may get /metrics, crawler is known and may not, nobody else is known. It counts the reviews.
type cluster struct {
	t       *testing.T
	clock   *testingclock.FakePassiveClock
	gate    http.Handler
	tokens  atomic.Int64
	rights  atomic.Int64
	broken  atomic.Bool
	revoked atomic.Bool
	// hold is what reviews wait for unless it is nil; first tells that one does.
	hold, first chan struct{}

	mu  sync.Mutex
	log strings.Builder
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, clock: testingclock.NewFakePassiveClock(time.Unix(1e9, 0))}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		c.tokens.Add(1)
		if c.hold != nil {
			c.first <- struct{}{}
			<-c.hold
		}
		if c.broken.Load() {
			return true, nil, errors.New("connection refused")
		}
		review, _ := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		out := review.DeepCopy()
		if user, ok := strings.CutPrefix(review.Spec.Token, "token of "); ok {
			out.Status.Authenticated, out.Status.User.Username, out.Status.User.Groups = true, user, []string{"system:authenticated"}
		} else {
			out.Status.Error = "invalid bearer token" // as kube-apiserver answers
		}
		return true, out, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		c.rights.Add(1)
		review, _ := a.(ktesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		out, asked := review.DeepCopy(), review.Spec.NonResourceAttributes
		out.Status.Allowed = review.Spec.User == "scraper" && asked.Path == "/metrics" && asked.Verb == "get" &&
			len(review.Spec.Groups) == 1 && !c.revoked.Load()
		return true, out, nil
	})
	log := funcr.New(func(prefix, args string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.log.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 9})
	c.gate = scrapeauth.New(scrapeauth.Options{
		Authentication: client.AuthenticationV1(), Authorization: client.AuthorizationV1(), Clock: c.clock, Log: log,
	}).Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	return c
}

func (c *cluster) ask(method, path string, authorization ...string) *http.Response {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, nil)
	for _, one := range authorization {
		r.Header.Add("Authorization", one)
	}
	w := httptest.NewRecorder()
	c.gate.ServeHTTP(w, r)
	return w.Result()
}

func (c *cluster) want(reason string, status int, authorization ...string) {
	c.t.Helper()
	if got := c.ask(http.MethodGet, "/metrics", authorization...).StatusCode; got != status {
		c.t.Errorf("%s: %d, want %d", reason, got, status)
	}
}

func (c *cluster) after(d time.Duration) { c.clock.SetTime(c.clock.Now().Add(d)) }

func TestWhoIsLetThrough(t *testing.T) {
	c := newCluster(t)
	c.want("a scraper", http.StatusTeapot, "Bearer token of scraper")
	c.want("a scraper, in other letters", http.StatusTeapot, "bearer  token of scraper")
	c.want("a user without the right", http.StatusForbidden, "Bearer token of crawler")
	for reason, authorization := range map[string][]string{
		"nobody": nil, "an unknown token": {"Bearer x"}, "no token": {"Bearer "}, "a password": {"Basic token of scraper"},
		"no scheme": {"token of scraper"}, "two headers": {"Bearer token of scraper", "Bearer token of scraper"},
		"more than a token": {"Bearer token of scraper" + strings.Repeat("x", 9<<10)},
	} {
		c.want(reason, http.StatusUnauthorized, authorization...)
	}
	if got := c.ask(http.MethodGet, "/metrics").Header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate: %q", got)
	}
	for _, other := range [][2]string{{http.MethodPost, "/metrics"}, {http.MethodGet, "/metrics/more"}} {
		if got := c.ask(other[0], other[1], "Bearer token of scraper").StatusCode; got != http.StatusForbidden {
			t.Errorf("%v: %d", other, got)
		}
	}
}

// TestAnswersAreTakenForTrueForAWhile: rights that end do so within a minute, and those that begin within ten seconds.
func TestAnswersAreTakenForTrueForAWhile(t *testing.T) {
	c := newCluster(t)
	c.revoked.Store(true)
	c.want("not yet", http.StatusForbidden, "Bearer token of scraper")
	c.revoked.Store(false)
	c.want("remembered", http.StatusForbidden, "Bearer token of scraper")
	c.after(11 * time.Second)
	c.want("allowed by now", http.StatusTeapot, "Bearer token of scraper")
	c.revoked.Store(true)
	c.after(59 * time.Second)
	c.want("remembered", http.StatusTeapot, "Bearer token of scraper")
	c.after(2 * time.Second)
	c.want("revoked", http.StatusForbidden, "Bearer token of scraper")
	if n := c.tokens.Load(); n != 3 {
		t.Errorf("%d reviews for 5 requests, want 3", n)
	}
}

// TestStrangersKeepNobodyOut: they cost a bounded number of reviews, and whoever was let in lately is reviewed all the same.
func TestStrangersKeepNobodyOut(t *testing.T) {
	c := newCluster(t)
	c.want("a scraper", http.StatusTeapot, "Bearer token of scraper")
	flood := func() (busy int) {
		for i := range 1000 {
			got := c.ask(http.MethodGet, "/metrics", fmt.Sprintf("Bearer guess %d at %s", i, c.clock.Now()))
			switch got.StatusCode {
			case http.StatusUnauthorized:
			case http.StatusTooManyRequests:
				busy++
				if got.Header.Get("Retry-After") == "" {
					t.Fatal("no Retry-After")
				}
			default:
				t.Fatal(got.StatusCode)
			}
		}
		return busy
	}
	before := c.tokens.Load()
	busy := flood()
	reviews := c.tokens.Load() - before
	t.Logf("1000 guesses at one moment: %d reviews, %d told to come again", reviews, busy)
	if reviews > 10 || busy < 990 {
		t.Errorf("%d reviews, want at most 10", reviews)
	}
	before = c.tokens.Load()
	for range 60 {
		c.after(time.Second)
		flood()
		c.want("the scraper", http.StatusTeapot, "Bearer token of scraper")
	}
	if n := c.tokens.Load() - before; n > 60*scrapeauth.UnknownPerSecond+2 {
		t.Errorf("%d reviews in a minute, want at most %d a second", n, scrapeauth.UnknownPerSecond)
	}
	c.revoked.Store(true)
	c.after(time.Minute)
	flood()
	c.want("who has lost its rights", http.StatusForbidden, "Bearer token of scraper")
	c.after(11 * time.Second)
	flood()
	c.want("is a stranger", http.StatusTooManyRequests, "Bearer token of scraper")
}

// TestOneReviewForAllWhoAskTheSame at one time.
func TestOneReviewForAllWhoAskTheSame(t *testing.T) {
	c := newCluster(t)
	c.hold, c.first = make(chan struct{}), make(chan struct{}, 5)
	var all sync.WaitGroup
	var through atomic.Int64
	for range 5 {
		all.Go(func() {
			if c.ask(http.MethodGet, "/metrics", "Bearer token of scraper").StatusCode == http.StatusTeapot {
				through.Add(1)
			}
		})
	}
	<-c.first
	close(c.hold)
	all.Wait()
	if n := c.tokens.Load(); through.Load() != 5 || n != 1 {
		t.Errorf("%d of 5 let through after %d reviews", through.Load(), n)
	}
}

// TestAnAPIServerThatDoesNotAnswer is no verdict and is not remembered; nothing of the token is said.
func TestAnAPIServerThatDoesNotAnswer(t *testing.T) {
	c := newCluster(t)
	c.broken.Store(true)
	c.want("broken", http.StatusServiceUnavailable, "Bearer token of scraper")
	c.broken.Store(false)
	c.want("well again", http.StatusTeapot, "Bearer token of scraper")
	if log := c.log.String(); !strings.Contains(log, "connection refused") || strings.Contains(log, "token of") {
		t.Errorf("log %q", log)
	}
}
