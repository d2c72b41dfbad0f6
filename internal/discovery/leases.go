package discovery

import (
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
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
		s.o.Metrics.LeaseRequest(OutcomeInvalid)
		x.fail(failure)
		return
	}
	req.Principal = x.principal.Name
	granted, err := s.o.Ledger.Acquire(req)
	var refused *lease.NoMatchError
	switch {
	case err == nil:
		s.o.Metrics.LeaseRequest(OutcomeGranted)
		x.json(http.StatusCreated, s.viewLease(granted))
	case errors.As(err, &refused):
		s.o.Metrics.LeaseRequest(OutcomeNoMatch)
		s.noMatch(x, refused)
	default:
		s.o.Metrics.LeaseRequest(outcomeOf(err))
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
	if _, failure = parameters(r.URL.RawQuery, ""); failure != nil {
		return req, failure
	}
	// Honouring it in part would be worse than not at all: a client that sends it relies on it when it repeats.
	if len(r.Header.Values("Idempotency-Key")) > 0 {
		return req, invalid("the header Idempotency-Key is not supported yet")
	}
	var body acquireBody
	if failure = decode(r, &body); failure != nil {
		return req, failure
	}
	if failure = body.refuseWait(); failure != nil {
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
		req.Namespace = *body.Namespace
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

// refuseWait lets only the value pass that asks for what happens anyway.
func (b *acquireBody) refuseWait() *apiError {
	n, _, failure := wholeNumber("waitSeconds", b.WaitSeconds)
	if failure == nil && n != 0 {
		failure = invalid("member /waitSeconds is not supported yet: only 0 is")
	}
	return failure
}

func (s *Server) getLease(x *exchange, r *http.Request) {
	l, err := s.o.Ledger.Get(r.PathValue("id"), x.principal.Name)
	if err != nil {
		x.fail(ofLedger(err))
		return
	}
	x.json(http.StatusOK, s.viewLease(l))
}

type renewBody struct {
	TTLSeconds jsontext.Value `json:"ttlSeconds"`
}

func (s *Server) renewLease(x *exchange, r *http.Request) {
	var body renewBody
	if failure := decode(r, &body); failure != nil {
		x.fail(failure)
		return
	}
	ttl, failure := s.ttl(body.TTLSeconds)
	if failure != nil {
		x.fail(failure)
		return
	}
	l, err := s.o.Ledger.Renew(r.PathValue("id"), x.principal.Name, ttl)
	if err != nil {
		x.fail(ofLedger(err))
		return
	}
	x.json(http.StatusOK, s.viewLease(l))
}

func (s *Server) releaseLease(x *exchange, r *http.Request) {
	if err := s.o.Ledger.Release(r.PathValue("id"), x.principal.Name); err != nil {
		x.fail(ofLedger(err))
		return
	}
	x.noContent()
}
