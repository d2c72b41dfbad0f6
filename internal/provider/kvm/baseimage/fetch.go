package baseimage

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// maxRedirects is how many a server may send, one after the other.
const maxRedirects = 10

// What CheckRedirect refuses.
var (
	errRedirects = errors.New("the server redirects too often")
	errScheme    = errors.New("the server redirects to neither http nor https")
)

// newClient returns c with this package's rules. Nil is a client of its own, with which the cache keeps no connection.
func newClient(c *http.Client) *http.Client {
	own := http.Client{}
	if c != nil {
		own = *c
	}
	next := own.Transport
	if c == nil {
		next = newTransport()
	} else if next == nil {
		next = http.DefaultTransport
	}
	own.Transport = tracing.Transport(next)
	own.Timeout = 0 // the watch knows better
	own.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		// net/http tells the next server the whole URL of the last, with a signature it may have.
		r.Header.Del("Referer")
		if len(via) > maxRedirects {
			return errRedirects
		}
		if r.URL.Scheme != "http" && r.URL.Scheme != "https" {
			return errScheme
		}
		return nil
	}
	return &own
}

// newTransport returns one without HTTP/2, of which the client would take in up to 4 MiB per download before the pool wants
// them: the operator has little memory.
func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    30 * time.Second,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize:         32 << 10,
		Protocols:              protocols,
	}
}

// fetch asks for an image. The caller closes the body of what it returns, whose length is known, not 0, and at most limit.
func fetch(ctx context.Context, client *http.Client, u *url.URL, limit int64, now time.Time) (*http.Response, *Failure) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, refuse("the URL is not valid")
	}
	r.Header.Set("Accept-Encoding", "identity") // what is compressed on the way has no length
	r.Header.Set("User-Agent", "egress-proxies-operator")
	resp, err := client.Do(r)
	if err != nil {
		for _, refused := range []error{errRedirects, errScheme} {
			if errors.Is(err, refused) {
				return nil, refuse("%s: %v", shown(u), refused)
			}
		}
		return nil, fail(provider.ErrTransient, "%s: %s", shown(u), explain(err))
	}
	if f := judge(resp, limit, now); f != nil {
		_ = resp.Body.Close()
		f.Message = shown(u) + ": " + f.Message
		return nil, f
	}
	return resp, nil
}

// judge is the table of what an answer means. Whatever is permanent is still tried again, slowly: servers get mended.
//
//	200 with a length up to the limit   the image
//	200 without, or with a larger one   permanent
//	408, 429, 5xx                       transient, after the delay that the server asks for
//	any other                           permanent
func judge(resp *http.Response, limit int64, now time.Time) *Failure {
	switch code := resp.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= 500 && code < 600:
		f := fail(provider.ErrTransient, "the server answers %d", code)
		f.asked = retryAfter(resp.Header.Get("Retry-After"), now)
		return f
	case code != http.StatusOK:
		return refuse("the server answers %d", code)
	case resp.Uncompressed || resp.ContentLength < 0:
		return refuse("the server does not say how long it is (Content-Length)")
	case resp.ContentLength == 0:
		return refuse("it is empty")
	case resp.ContentLength > limit:
		return refuse("it is %d bytes long, more than the %d allowed", resp.ContentLength, limit)
	}
	return nil
}

// retryAfter reads the header: seconds or a date. It is between 0 and maxBackoff.
func retryAfter(s string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(s, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return min(time.Duration(seconds)*time.Second, maxBackoff)
	}
	at, err := http.ParseTime(s)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxBackoff)
}

// explain says why there is no answer, or no more of it. Only what is known to hold neither a URL nor what a server said is
// passed on.
func explain(err error) string {
	var (
		dns  *net.DNSError
		cert *tls.CertificateVerificationError
		errn syscall.Errno
		op   *net.OpError
		timo net.Error
	)
	switch {
	case errors.As(err, &dns):
		return "the server's name cannot be resolved"
	case errors.As(err, &cert):
		return "the server's certificate is not trusted"
	case errors.As(err, &errn):
		return errn.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended too early"
	case errors.As(err, &timo) && timo.Timeout():
		return "timed out"
	case errors.Is(err, context.Canceled):
		return "given up"
	case errors.As(err, &op):
		return "the connection failed (" + op.Op + ")"
	}
	return "the server's answer cannot be understood"
}
