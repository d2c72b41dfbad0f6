package health

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Bounds of what a probe reads. A larger header is a BadResponse; of a larger body the rest is left unread.
const (
	maxHeaderBytes = 64 << 10
	maxBodyBytes   = 64 << 10
	// maxInterim is how many 1xx answers may precede the real one.
	maxInterim = 5
)

// exchange is one probe over one connection to the proxy. Everything in it ends with the connection's deadline.
type exchange struct {
	conn   net.Conn
	aim    aim
	target Target
	roots  *rootsCache
	now    func() time.Time
}

func (x *exchange) run() (status int, failed *failure) {
	if !x.aim.https {
		return x.get(x.conn, x.aim.absolute, proxyAuthorization(x.target.Credentials))
	}
	tunnel, failed := x.connect()
	if failed != nil {
		return 0, failed
	}
	conf, err := x.tlsConfig()
	if err != nil {
		return 0, &failure{reason: v1alpha1.ReasonTLSFailed, message: err.Error()}
	}
	inner := tls.Client(tunnel, conf)
	// Not HandshakeContext, which starts a goroutine: the deadline is on the connection. And inner is never closed:
	// its Close would wait for a last alert to be written; closing the connection below is enough.
	if err := inner.Handshake(); err != nil { //nolint:noctx // the deadline is on the connection, as said above
		return 0, tlsFailure(x.aim.host, err)
	}
	return x.get(inner, x.aim.path, "")
}

func (x *exchange) tlsConfig() (*tls.Config, error) {
	roots, err := x.roots.get(x.target.Probe.CABundle)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		ServerName:         x.aim.host,
		RootCAs:            roots,
		NextProtos:         []string{"http/1.1"},
		MinVersion:         tls.VersionTLS12,
		Time:               x.now,
		InsecureSkipVerify: x.target.Probe.InsecureSkipVerify, //nolint:gosec // asked for in the spec of this Proxy
	}, nil
}

// get asks for uri over rw and judges the answer. authorization is empty inside a tunnel.
func (x *exchange) get(rw io.ReadWriter, uri, authorization string) (status int, failed *failure) {
	inTunnel := x.aim.https
	var b strings.Builder
	b.WriteString("GET " + uri + " HTTP/1.1\r\nHost: " + x.aim.hostHeader + "\r\n")
	b.WriteString("User-Agent: " + userAgent + "\r\nAccept: */*\r\nAccept-Encoding: identity\r\n")
	b.WriteString(authorization)
	b.WriteString("Connection: close\r\n\r\n")
	if _, err := io.WriteString(rw, b.String()); err != nil {
		return 0, responseFailure(stageRequest, err)
	}
	limited := &budget{r: rw, left: maxHeaderBytes}
	resp, err := readResponse(bufio.NewReader(limited)) //nolint:bodyclose // would read the rest of the body; the connection is closed instead
	if err != nil {
		return 0, responseFailure(stageAnswer, limited.cause(err))
	}
	switch {
	case !inTunnel && resp.StatusCode == http.StatusProxyAuthRequired:
		return 0, proxyAuthFailure(x.target.Credentials)
	case !expected(resp.StatusCode, x.target.Probe.ExpectedStatus):
		return 0, statusFailure(resp.StatusCode, x.target.Probe.ExpectedStatus, inTunnel)
	}
	limited.left = maxBodyBytes
	if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(limited.cause(err), errBudget) {
		return 0, responseFailure(stageBody, limited.cause(err))
	}
	return resp.StatusCode, nil
}

// readResponse reads the first answer that is final.
func readResponse(r *bufio.Reader) (*http.Response, error) {
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return nil, err
		}
		if !interim(resp.StatusCode) {
			return resp, nil
		}
	}
	return nil, errInterim
}

func interim(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}

func expected(status, want int) bool {
	if want == 0 {
		return success(status)
	}
	return status == want
}

func success(status int) bool { return status >= 200 && status <= 299 }

// proxyAuthorization returns the header line for the proxy, empty without credentials.
func proxyAuthorization(c *provider.Credentials) string {
	if c == nil {
		return ""
	}
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)) + "\r\n"
}

// budget is a reader that fails with errBudget after left bytes.
type budget struct {
	r    io.Reader
	left int
	// failed is what the last Read ended with.
	failed error
}

func (b *budget) Read(p []byte) (n int, err error) {
	if b.left <= 0 {
		err = errBudget
	} else {
		n, err = b.r.Read(p[:min(len(p), b.left)])
		b.left -= n
	}
	b.failed = err
	return n, err
}

// cause returns why reading ended where a parser of what was read says err. bufio.Reader.ReadLine returns the part of
// a line that came before an error without that error, so that a timeout would pass for a malformed line.
func (b *budget) cause(err error) error {
	if b.failed != nil {
		return b.failed
	}
	return err
}

func (b *budget) lift() { b.left = math.MaxInt }
