package discovery

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/egress-proxies/egress-proxies-operator/internal/connlimit"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

const (
	// maxWait is the longest wait for a proxy, well within the time that proxies between client and server allow an answer.
	maxWait     = 30 * time.Second
	maxKeyBytes = 255
)

// acquireBody is the body of a request for a lease. A member that is null counts as absent, in the selector too.
type acquireBody struct {
	Selector    map[string]*string `json:"selector"`
	Namespace   *string            `json:"namespace"`
	TTLSeconds  jsontext.Value     `json:"ttlSeconds"`
	Target      *string            `json:"target"`
	Prefer      *string            `json:"prefer"`
	WaitSeconds jsontext.Value     `json:"waitSeconds"`
}

func (s *Server) acquireLease(x *exchange, r *http.Request) {
	req, failure := s.parseAcquire(r)
	if failure != nil {
		s.acquired(x, OutcomeInvalid)
		x.fail(failure)
		return
	}
	if !x.principal.admits(&req.Query) {
		s.noneMatches(x, &lease.NoMatchError{})
		return
	}
	req.Principal = x.principal.Name
	if x.waits = req.Wait > 0; x.waits {
		s.acquireWaiting(x, r, req)
		return
	}
	granted, err := s.o.Ledger.Acquire(r.Context(), req)
	s.answerAcquire(x, granted, err)
}

// acquireWaiting acquires for a client that waits and may be gone, or no longer be who it was, when its turn comes.
func (s *Server) acquireWaiting(x *exchange, r *http.Request, req lease.Request) {
	control := http.NewResponseController(x)
	// The time for reading is over, the body is here: what is left of it must not end the wait.
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return // the connection is gone
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	// With another request in between nobody could tell whether the client is still there.
	stop := connlimit.Of(r).During(cancel)
	granted, err := s.o.Ledger.Acquire(ctx, req)
	stop()
	// The time for answering begins now. If the connection is gone, writing says so.
	_ = control.SetWriteDeadline(time.Now().Add(s.o.WriteTimeout))

	now, presented, ok := s.auth.principal(r.Header.Values("Authorization"))
	isNew := err == nil && x.principal.sees(granted.Proxy) // otherwise it is an earlier lease, by its key
	lost := now.Name != x.principal.Name || isNew && !now.sees(granted.Proxy)
	if isNew && lost {
		// Should this fail, the ledger grants no longer and its leases are as good as gone.
		_ = s.o.Ledger.Release(granted.ID, req.Principal)
	}
	switch {
	case !ok:
		s.acquired(x, OutcomeInvalid)
		x.unauthorized(presented)
	case lost:
		s.noneMatches(x, &lease.NoMatchError{})
	default:
		s.answerAcquire(x, granted, err)
	}
}

// answerAcquire answers with what the ledger said.
func (s *Server) answerAcquire(x *exchange, granted lease.Lease, err error) {
	var refused *lease.NoMatchError
	switch {
	case err == nil && !x.principal.sees(granted.Proxy):
		// Earlier, under the same key, the principal saw it.
		s.acquired(x, OutcomeInvalid)
		x.fail(proxyGone())
	case err == nil:
		s.acquired(x, OutcomeGranted)
		x.json(http.StatusCreated, s.viewLease(granted))
	case errors.As(err, &refused):
		// Who has closed its side may still read: it gets its answer.
		if errors.Is(err, context.Canceled) {
			s.acquired(x, OutcomeGone)
			s.noMatch(x, refused)
		} else {
			s.noneMatches(x, refused)
		}
	case errors.Is(err, context.Canceled):
		s.acquired(x, OutcomeGone)
		x.fail(&apiError{http.StatusServiceUnavailable, "overloaded", "the wait was given up"})
	default:
		s.acquired(x, outcomeOf(err))
		if errors.Is(err, lease.ErrOverloaded) {
			x.Header().Set("Retry-After", retryAfter(maxRetryAfter))
		}
		x.fail(ofLedger(err))
	}
}

func outcomeOf(err error) string {
	switch {
	case errors.Is(err, lease.ErrOverloaded):
		return OutcomeOverloaded
	case errors.Is(err, lease.ErrMayNotGrant):
		return OutcomeNotLeader
	}
	return OutcomeInvalid
}

func (s *Server) parseAcquire(r *http.Request) (req lease.Request, failure *apiError) {
	var body acquireBody
	raw, failure := decode(r, &body)
	if failure != nil {
		return req, failure
	}
	if req.Key, failure = idempotencyKey(r.Header); failure != nil {
		return req, failure
	}
	if req.Key != "" {
		req.Body = sha256.Sum256(raw)
	}
	if req.Wait, failure = body.wait(); failure != nil {
		return req, failure
	}
	if req.TTL, failure = s.ttl(body.TTLSeconds); failure != nil {
		return req, failure
	}
	req.Selector = make(map[string]string, len(body.Selector))
	for k, v := range body.Selector {
		if v != nil {
			req.Selector[k] = *v
		}
	}
	if failure = selector("selector", req.Selector); failure != nil {
		return req, failure
	}
	if body.Namespace != nil {
		if failure = namespace("member /namespace", *body.Namespace); failure != nil {
			return req, failure
		}
		req.Namespaces = []string{*body.Namespace}
	}
	if body.Target != nil {
		if failure = target("member /target", *body.Target); failure != nil {
			return req, failure
		}
		req.Target = *body.Target
	}
	req.Prefer = s.o.Prefer
	if body.Prefer != nil {
		if req.Prefer = lease.Prefer(*body.Prefer); !req.Prefer.Valid() {
			return req, invalid("member /prefer must be %s or %s", lease.PreferLatency, lease.PreferRotation)
		}
	}
	return req, nil
}

// wait returns how long the request may wait.
func (b *acquireBody) wait() (time.Duration, *apiError) {
	n, _, failure := wholeNumber("waitSeconds", b.WaitSeconds)
	if failure == nil && (n < 0 || n > int64(maxWait/time.Second)) {
		failure = invalid("member /waitSeconds must be between 0 and %d", maxWait/time.Second)
	}
	if failure != nil {
		return 0, failure
	}
	return time.Duration(n) * time.Second, nil
}

// idempotencyKey returns the key that the request is sent under, if any.
func idempotencyKey(h http.Header) (string, *apiError) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	visible := !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' })
	if len(values) > 1 || key == "" || len(key) > maxKeyBytes || !visible {
		return "", invalid("the header Idempotency-Key must be sent once, with 1 to %d visible ASCII characters", maxKeyBytes)
	}
	return key, nil
}
