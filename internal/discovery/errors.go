package discovery

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// apiError is an answer other than success. Messages name members and parameters, never their values.
type apiError struct {
	status  int
	code    string
	message string
}

// Error implements error.
func (e *apiError) Error() string { return e.code + ": " + e.message }

type errorBody struct {
	Error   string `json:"error"`
	Message string `json:"message"`
}

func invalid(format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...)}
}

func notFound(message string) *apiError {
	return &apiError{http.StatusNotFound, "not_found", message}
}

func tooLarge() *apiError {
	return &apiError{http.StatusRequestEntityTooLarge, "too_large", fmt.Sprintf("the body is larger than %d bytes", maxBodyBytes)}
}

func notLeader() *apiError {
	return &apiError{http.StatusServiceUnavailable, "not_leader", "this replica does not grant leases; connect again to reach the one that does"}
}

func proxyGone() *apiError {
	return &apiError{http.StatusGone, "proxy_gone", "the leased proxy was replaced or deleted, or is out of your sight"}
}

// ofLedger translates what the ledger refused with.
func ofLedger(err error) *apiError {
	switch {
	case errors.Is(err, lease.ErrUnknownLease):
		return &apiError{http.StatusNotFound, "unknown_lease", "there is no such lease"}
	case errors.Is(err, lease.ErrExpired):
		return &apiError{http.StatusGone, "expired", "the lease has expired"}
	case errors.Is(err, lease.ErrProxyGone):
		return proxyGone()
	case errors.Is(err, lease.ErrDraining):
		return &apiError{http.StatusConflict, "draining", "the leased proxy is about to be replaced or deleted; the lease stays valid until it expires"}
	case errors.Is(err, lease.ErrOverloaded):
		return &apiError{http.StatusServiceUnavailable, "overloaded", "no lease can be granted at the moment: too many are live"}
	case errors.Is(err, lease.ErrKeyReused):
		return &apiError{http.StatusUnprocessableEntity, "idempotency_mismatch", "the Idempotency-Key stands for a request with another body"}
	case errors.Is(err, lease.ErrMayNotGrant):
		return notLeader()
	}
	return &apiError{http.StatusInternalServerError, "internal", "internal error"}
}

// fail answers with err.
func (x *exchange) fail(err *apiError) {
	if err.code == "not_leader" {
		// The Service may send the next connection elsewhere, but never this one.
		x.Header().Set("Connection", "close")
	}
	x.json(err.status, errorBody{Error: err.code, Message: err.message})
}
