package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultRequestTimeout is Options.RequestTimeout when that is 0.
const DefaultRequestTimeout = 10 * time.Second

const (
	minRequestTimeout = 50 * time.Millisecond
	maxRequestTimeout = 5 * time.Minute
)

// Options configure a Client.
type Options struct {
	// BaseURL is where the API is, http://egress-proxies-operator.system:8090 for example. Required; http or https, a path
	// is taken for a prefix, user, query and fragment are refused.
	BaseURL string
	// Token is the bearer token. With neither Token nor TokenSource none is sent: the server must be open then, and gives
	// out no proxy credentials.
	Token string
	// TokenSource returns the bearer token for every request, see TokenFile. At most one of Token and TokenSource is set.
	TokenSource TokenSource
	// HTTPClient sends the requests; nil for one of the client's own that connects directly, whatever HTTP_PROXY says. Of a
	// given one a copy is used, without its Timeout (a request that waits for a proxy takes up to 30 s longer than others;
	// RequestTimeout bounds them all) and without redirects, which this API does not have.
	HTTPClient *http.Client
	// RequestTimeout bounds each single try, not counting what the server was asked to wait: 50 ms to 5 m, 10 s when 0.
	RequestTimeout time.Duration
	// Logger gets the loss of leases and failed renewals at level Warn, and retries at level Debug. No token, password or
	// lease ID is logged. nil for no log.
	Logger *slog.Logger

	clock clock
}

// Format implements fmt.Formatter: it shows BaseURL and nothing else, so that no token gets into a log.
func (o Options) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "client.Options{BaseURL:%s}", redactURL(o.BaseURL))
}

// LogValue implements slog.LogValuer, like Format.
func (o Options) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(o)) }

func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return redacted
	}
	return u.Redacted()
}

// complete checks o and fills in the defaults. It returns where the API is.
func (o *Options) complete() (*url.URL, error) {
	base, err := baseURL(o.BaseURL)
	if err != nil {
		return nil, err
	}
	if o.Token != "" && o.TokenSource != nil {
		return nil, errors.New("client: only one of Token and TokenSource may be set")
	}
	if err := checkToken(o.Token); err != nil {
		return nil, fmt.Errorf("client: Token: %w", err)
	}
	if o.TokenSource == nil {
		token := o.Token
		o.TokenSource = func(context.Context) (string, error) { return token, nil }
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.RequestTimeout < minRequestTimeout || o.RequestTimeout > maxRequestTimeout {
		return nil, fmt.Errorf("client: RequestTimeout %v is not within %v and %v", o.RequestTimeout, minRequestTimeout, maxRequestTimeout)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.clock == nil {
		o.clock = wallClock{}
	}
	return base, nil
}

// baseURL reads where the API is. Its errors do not repeat the value: a password may stand in it.
func baseURL(raw string) (*url.URL, error) {
	base, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, errors.New("client: BaseURL is required")
	case err != nil:
		return nil, errors.New("client: BaseURL is not a URL")
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, errors.New("client: BaseURL must begin with http:// or https://")
	case base.Hostname() == "":
		return nil, errors.New("client: BaseURL names no host")
	case base.User != nil:
		return nil, errors.New("client: BaseURL must not hold a user or password, use Token")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, errors.New("client: BaseURL must not have a query or fragment")
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), ""
	return base, nil
}

// httpClient returns the copy of given, or one of our own, and says whether its connections are ours to close.
func httpClient(given *http.Client) (hc *http.Client, own bool) {
	if given != nil {
		c := *given
		hc = &c
	} else {
		own = true
		hc = &http.Client{Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 32,
			IdleConnTimeout:     time.Minute, // the server closes after two
			// Answers are small, and a compressed one could grow beyond the bound on them.
			DisableCompression:     true,
			MaxResponseHeaderBytes: 64 << 10,
		}}
	}
	hc.Timeout = 0
	hc.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return hc, own
}
