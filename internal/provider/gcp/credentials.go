package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"

	"github.com/egress-proxies/egress-proxies-operator/internal/filewatch"
)

// scope is what tokens are asked for; what the identity may do is decided by its roles.
const scope = "https://www.googleapis.com/auth/compute"

// maxCredentials bounds a credentials file, in bytes.
const maxCredentials = 64 << 10

// credentialsError says that there are no usable credentials. Its text does not repeat what was read.
type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return "credentials: " + e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// tokenError says that whoever gives out tokens does not do so at present.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "no token is given out at present" }
func (e *tokenError) Unwrap() error { return e.err }

// authenticated adds tokens to requests. Credentials are looked for when the first request is made, because looking can take
// a call to the metadata server, and again when their file has changed.
type authenticated struct {
	file string
	next http.RoundTripper

	mu   sync.Mutex
	seen os.FileInfo
	with http.RoundTripper
}

// RoundTrip sends a request with a token. Where there are no credentials it fails with a *credentialsError.
func (a *authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	with, err := a.current()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, &credentialsError{err}
	}
	resp, err := with.RoundTrip(r)
	if sent, ok := errors.AsType[*sentError](err); ok {
		return nil, sent.err
	}
	if err != nil {
		return nil, noToken(err)
	}
	return resp, nil
}

// noToken says why there is none. The answer of a token endpoint can hold what it was asked with, and is not repeated.
func noToken(err error) error {
	if _, unanswered := errors.AsType[*url.Error](err); unanswered || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &tokenError{err}
	}
	refused, ok := errors.AsType[*auth.Error](err)
	if ok && (refused.Temporary() || refused.Response != nil && refused.Response.StatusCode >= http.StatusInternalServerError) {
		return &tokenError{err}
	}
	return &credentialsError{errors.New("no token is given out for them")}
}

// sending marks errors of requests that had a token.
type sending struct{ next http.RoundTripper }

type sentError struct{ err error }

func (e *sentError) Error() string { return e.err.Error() }
func (e *sentError) Unwrap() error { return e.err }

func (s sending) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, &sentError{err}
	}
	return resp, nil
}

// CloseIdleConnections is called by http.Client.
func (a *authenticated) CloseIdleConnections() {
	if c, ok := a.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (a *authenticated) current() (http.RoundTripper, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var now os.FileInfo
	if a.file != "" {
		info, err := os.Stat(a.file)
		if err != nil {
			return nil, fmt.Errorf("credentialsFile: %w", err)
		}
		now = info
	}
	if a.with != nil && unchanged(a.seen, now) {
		return a.with, nil
	}
	creds, err := a.find()
	if err != nil {
		return nil, err
	}
	client, err := httptransport.NewClient(&httptransport.Options{Credentials: creds, BaseRoundTripper: sending{a.next}, DisableTelemetry: true})
	if err != nil {
		return nil, err
	}
	a.with, a.seen = client.Transport, now
	return a.with, nil
}

// unchanged reports whether two looks at a file have seen the same state of it.
func unchanged(before, now os.FileInfo) bool {
	if before == nil || now == nil {
		return before == now
	}
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}

// tokenTimeout bounds one request for a token, which others may be waiting for, too.
const tokenTimeout = 30 * time.Second

// find reads the file, or else looks for application default credentials.
func (a *authenticated) find() (*auth.Credentials, error) {
	opts := &credentials.DetectOptions{Scopes: []string{scope}, Client: &http.Client{Transport: a.next, Timeout: tokenTimeout}}
	if a.file == "" {
		creds, err := credentials.DetectDefault(opts)
		if err != nil {
			return nil, errors.New("there are no application default credentials")
		}
		return creds, nil
	}
	data, err := filewatch.Read(a.file, maxCredentials)
	if err != nil {
		return nil, fmt.Errorf("credentialsFile: %w", err)
	}
	var head struct {
		Type credentials.CredType `json:"type"`
	}
	if json.Unmarshal(data, &head) != nil {
		return nil, errors.New("credentialsFile: not JSON")
	}
	switch head.Type {
	case credentials.ServiceAccount, credentials.ExternalAccount, credentials.AuthorizedUser, credentials.ImpersonatedServiceAccount:
	default:
		return nil, fmt.Errorf("credentialsFile: type %q is not one of service_account, external_account, impersonated_service_account, authorized_user", head.Type)
	}
	creds, err := credentials.NewCredentialsFromJSON(head.Type, data, opts)
	if err != nil {
		return nil, fmt.Errorf("credentialsFile: it is not a valid %s", head.Type)
	}
	return creds, nil
}
