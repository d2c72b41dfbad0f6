package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Result is what a crawler says of a leased proxy.
type Result string

// The results. ResultRateLimited and ResultBanned let the proxy rest for the target, 10 minutes by default; ResultOK
// changes nothing. ResultNone is no report at all; only a Classify function may return it.
const (
	ResultNone        Result = ""
	ResultOK          Result = "ok"
	ResultRateLimited Result = "rate_limited"
	ResultBanned      Result = "banned"
)

// bad reports whether the proxy rests after it.
func (r Result) bad() bool { return r == ResultRateLimited || r == ResultBanned }

type wireReport struct {
	Result Result `json:"result"`
	Target string `json:"target,omitempty"`
}

// Report tells the server what target made of requests through the proxy. target is a host name as CanonicalTarget takes
// it; when it is empty the lease's is meant, and when that is empty too, every target. It blocks until the server has taken
// the report, retries trouble for 10 s, and also works after the lease is over, for the time of a cooldown (10 minutes by
// default). Errors: one that names the argument, ErrUnknownLease, *APIError, ctx's.
func (l *Lease) Report(ctx context.Context, result Result, target string) error {
	if result != ResultOK && !result.bad() {
		return fmt.Errorf("client: result %q is none of %s, %s and %s", result, ResultOK, ResultRateLimited, ResultBanned)
	}
	if target != "" {
		var err error
		if target, err = CanonicalTarget(target); err != nil {
			return err
		}
	}
	_, err := l.c.do(ctx, call{
		method: http.MethodPost, path: leasePath(l.id) + "/report", body: encode(wireReport{result, target}),
	}, http.StatusNoContent)
	return err
}

// Release ends the lease: Done is closed and renewal has ended when it returns, whatever it returns. It blocks until the
// server knows, retries trouble for 10 s, and ends early with ctx's error. After an error it may be called again; otherwise
// the lease expires by itself. Releasing a lease that is released or lost is no error.
func (l *Lease) Release(ctx context.Context) error {
	l.end(ErrReleased)
	// The renewal's context has ended, so this takes no time worth mentioning.
	<-l.stopped
	select {
	case <-l.releasing:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.releasing <- struct{}{} }()
	if why := l.Err(); l.released || errors.Is(why, ErrUnknownLease) || errors.Is(why, ErrProxyGone) || errors.Is(why, ErrEpochChanged) {
		return nil
	}
	_, err := l.c.do(ctx, call{method: http.MethodDelete, path: leasePath(l.id)}, http.StatusNoContent)
	l.released = err == nil
	return err
}
