package scrapeauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
)

const (
	// UnknownPerSecond bounds the reviews of tokens that nobody was let in with of late, unknownBurst how many of them may
	// come at once.
	UnknownPerSecond = 5
	unknownBurst     = 10
	// allowedFor and refusedFor are for how long an answer is taken for still true. The former is what a scraper keeps that has
	// lost its rights; kube-apiserver's own delegation has 5 minutes.
	allowedFor = time.Minute
	refusedFor = 10 * time.Second
	// knownFor is for how long a token that was let in is reviewed again whatever strangers do.
	knownFor = time.Hour
	// answers and known bound the memory: of the latter only those who were let in take some.
	answers, known = 1024, 256
	reviewTimeout  = 10 * time.Second
	// maxToken bounds what is sent to the API server; service account tokens have about 1 KiB.
	maxToken = 8 << 10
)

// Options are what a Gate needs.
type Options struct {
	Authentication authenticationv1.AuthenticationV1Interface
	Authorization  authorizationv1.AuthorizationV1Interface
	Clock          clock.PassiveClock
	Log            logr.Logger
}

// Gate remembers who may pass. It is safe for concurrent use.
type Gate struct {
	o        Options
	answered *cache.LRUExpireCache // a status by question
	letIn    *cache.LRUExpireCache // questions that were answered with yes
	unknown  *rate.Limiter
	flights  singleflight.Group
}

// New returns a Gate that remembers nobody.
func New(o Options) *Gate {
	return &Gate{
		o: o, answered: cache.NewLRUExpireCacheWithClock(answers, o.Clock), letIn: cache.NewLRUExpireCacheWithClock(known, o.Clock),
		unknown: rate.NewLimiter(UnknownPerSecond, unknownBurst),
	}
}

// errBusy says that too many unknown tokens have come.
var errBusy = errors.New("too many unknown tokens")

// Wrap returns next behind the gate: 401 without a token that the cluster knows, 403 where its user may not, 429 while too many
// unknown tokens come, 503 where the API server does not say. A request waits for up to 10 s.
func (g *Gate) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch status, err := g.status(r); {
		case errors.Is(err, errBusy):
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests)
		case err != nil:
			// Whoever reaches the port can have this happen while the API server does not answer.
			g.o.Log.V(1).Info("the API server does not say who may see metrics", "error", err.Error())
			refuse(w, http.StatusServiceUnavailable)
		case status == http.StatusOK:
			connlimit.Of(r).Prove()
			next.ServeHTTP(w, r)
		case status == http.StatusUnauthorized:
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, status)
		default:
			refuse(w, status)
		}
	})
}

func refuse(w http.ResponseWriter, status int) { http.Error(w, http.StatusText(status), status) }

// question is what the API server is asked; of the token no more than a hash is kept.
type question struct {
	token      [sha256.Size]byte
	verb, path string
}

func (g *Gate) status(r *http.Request) (int, error) {
	token, ok := bearer(r)
	if !ok {
		return http.StatusUnauthorized, nil
	}
	q := question{sha256.Sum256([]byte(token)), strings.ToLower(r.Method), r.URL.Path}
	if status, ok := g.answered.Get(q); ok {
		return status.(int), nil //nolint:forcetypeassert // nothing else is put there
	}
	if _, ok := g.letIn.Get(q); !ok && !g.unknown.AllowN(g.o.Clock.Now(), 1) {
		return 0, errBusy
	}
	status, err, _ := g.flights.Do(string(q.token[:])+q.verb+q.path, func() (any, error) {
		if status, ok := g.answered.Get(q); ok {
			return status, nil // by a flight that ended just now
		}
		// Of several who ask the same the first may be gone.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), reviewTimeout)
		defer cancel()
		status, err := g.review(ctx, token, q.verb, q.path)
		switch {
		case err != nil:
		case status == http.StatusOK:
			g.answered.Add(q, status, allowedFor)
			g.letIn.Add(q, true, knownFor)
		default:
			g.answered.Add(q, status, refusedFor)
			g.letIn.Remove(q)
		}
		return status, err
	})
	if err != nil {
		return 0, err
	}
	return status.(int), nil //nolint:forcetypeassert // see above
}

// bearer returns the token of a request.
func bearer(r *http.Request) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(token) <= maxToken
}
