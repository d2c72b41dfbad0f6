package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// MaxMessageBytes bounds the message of a Result.
const MaxMessageBytes = 512

// failure is why a probe failed. Messages are put together from our own words and from what the spec says, never from
// an error's text or what a proxy sent: those carry addresses of sockets, times, request IDs.
type failure struct {
	reason        string
	message       string
	targetRefused bool
	inconclusive  bool
}

// stage is where in a probe something went wrong. The reason follows from the stage, save for timeouts.
type stage string

const (
	stageDial    stage = "connecting to the proxy"
	stageConnect stage = "asking the proxy for a tunnel"
	stageTLS     stage = "setting up TLS inside the tunnel"
	stageRequest stage = "sending the request"
	stageAnswer  stage = "waiting for the answer"
	stageBody    stage = "reading the body"
)

func interrupted() *failure {
	return &failure{reason: v1alpha1.ReasonTimeout, message: "the probe was interrupted", inconclusive: true}
}

func timedOut(s stage) *failure {
	return &failure{reason: v1alpha1.ReasonTimeout, message: "timed out while " + string(s)}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		(errors.As(err, &n) && n.Timeout())
}

func dialFailure(parent context.Context, e fleet.Endpoint, err error) *failure {
	f := &failure{reason: v1alpha1.ReasonDialFailed}
	var refused *refusedAddressError
	var dns *net.DNSError
	switch {
	case parent.Err() != nil:
		return interrupted()
	case errors.As(err, &refused):
		f.reason, f.message = v1alpha1.ReasonProxyRefused, refused.Error()
		return f
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOBUFS), errors.Is(err, syscall.ENOMEM):
		f.message, f.inconclusive = "the operator has run out of sockets", true
		return f
	case isTimeout(err):
		return timedOut(stageDial)
	case errors.As(err, &dns) && dns.IsNotFound:
		f.message = "no such host"
	case errors.As(err, &dns):
		f.message = "the host name cannot be resolved"
	default:
		f.message = networkMessage(err)
	}
	f.message = fmt.Sprintf("cannot connect to %s: %s", e.Address(), f.message)
	return f
}

func networkMessage(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.EAFNOSUPPORT):
		return "network unreachable"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return "host unreachable"
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return "not permitted on this host"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection closed"
	}
	return ""
}

func responseFailure(s stage, err error) *failure {
	if isTimeout(err) {
		return timedOut(s)
	}
	f := &failure{reason: v1alpha1.ReasonBadResponse}
	switch message := networkMessage(err); {
	case errors.Is(err, errBudget):
		f.message = "the header is larger than 64 KiB"
	case errors.Is(err, errInterim):
		f.message = "too many interim answers"
	case message != "":
		f.message = message
	default:
		f.message = "the answer is not valid HTTP/1.1"
	}
	f.message += " while " + string(s)
	return f
}

func tlsFailure(host string, err error) *failure {
	if isTimeout(err) {
		return timedOut(stageTLS)
	}
	f := &failure{reason: v1alpha1.ReasonTLSFailed}
	var (
		name    x509.HostnameError
		unknown x509.UnknownAuthorityError
		invalid x509.CertificateInvalidError
		roots   x509.SystemRootsError
		record  tls.RecordHeaderError
		remote  *net.OpError
	)
	switch {
	case errors.As(err, &name):
		f.message = "the certificate is not valid for " + host
	case errors.As(err, &unknown):
		f.message = "the certificate is signed by an unknown authority"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		f.message = "the certificate has expired or is not valid yet"
	case errors.As(err, &invalid):
		f.message = "the certificate is not valid"
	case errors.As(err, &roots):
		f.message = "the operator has no certificate authorities to verify with"
	case errors.As(err, &record):
		f.message = "what answered inside the tunnel does not speak TLS"
	case errors.As(err, &remote) && remote.Op == "remote error":
		// The text of an alert is one of a fixed list.
		f.message = "the target refused the handshake: " + remote.Err.Error()
	default:
		f.message = networkMessage(err)
		if f.message == "" {
			f.message = "handshake failed"
		}
		f.message += " while " + string(stageTLS)
	}
	return f
}

func proxyAuthFailure(c *provider.Credentials) *failure {
	message := "the proxy asks for credentials and the Proxy names none (407)"
	if c != nil {
		message = "the proxy does not accept the credentials (407)"
	}
	return &failure{reason: v1alpha1.ReasonProxyAuthFailed, message: message}
}

func refusedFailure(status int) *failure {
	return &failure{reason: v1alpha1.ReasonProxyRefused, message: "the proxy answered CONNECT with " + statusText(status)}
}

func statusFailure(status, want int, inTunnel bool) *failure {
	wanted := "any 2xx"
	if want != 0 {
		wanted = statusText(want)
	}
	f := &failure{
		reason:  v1alpha1.ReasonUnexpectedStatus,
		message: fmt.Sprintf("%s, want %s", answered(status), wanted),
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		// Outside a tunnel the proxy itself may have said so.
		f.targetRefused = inTunnel
	}
	return f
}

func answered(status int) string { return "the probe was answered with " + statusText(status) }

func statusText(status int) string {
	if text := http.StatusText(status); text != "" {
		return fmt.Sprintf("%d %s", status, text)
	}
	return fmt.Sprint(status)
}

// clean makes s valid UTF-8 without control characters and cuts it on the edge of a rune.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= MaxMessageBytes {
		return s
	}
	cut := MaxMessageBytes
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
