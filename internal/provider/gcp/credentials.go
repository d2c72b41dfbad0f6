package gcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// authenticated adds tokens to requests. Credentials are looked for when the first request is made, because looking can take
// a call to the metadata server, and again when their file has changed.
type authenticated struct {
	file string
	next http.RoundTripper

	mu   sync.Mutex
	seen stamp
	with http.RoundTripper
}

// stamp tells one state of a file from another.
type stamp struct {
	modified time.Time
	size     int64
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
	if _, refused := errors.AsType[*auth.Error](err); refused {
		// The answer of a token endpoint can hold what it was asked with.
		return nil, &credentialsError{errors.New("no token is given out for them")}
	}
	return resp, err
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
	var now stamp
	if a.file != "" {
		info, err := os.Stat(a.file)
		if err != nil {
			return nil, fmt.Errorf("credentialsFile: %w", err)
		}
		now = stamp{info.ModTime(), info.Size()}
	}
	if a.with != nil && now == a.seen {
		return a.with, nil
	}
	creds, err := a.find()
	if err != nil {
		return nil, err
	}
	client, err := httptransport.NewClient(&httptransport.Options{Credentials: creds, BaseRoundTripper: a.next, DisableTelemetry: true})
	if err != nil {
		return nil, err
	}
	a.with, a.seen = client.Transport, now
	return a.with, nil
}

// find reads the file, or else looks for application default credentials.
func (a *authenticated) find() (*auth.Credentials, error) {
	opts := &credentials.DetectOptions{Scopes: []string{scope}}
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
