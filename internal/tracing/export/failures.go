package export

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
)

// quiet is for how long nothing more is said of a kind of failure after it was told.
const quiet = time.Minute

// failures tells now and then that spans do not arrive.
type failures struct {
	log   logr.Logger
	clock clock.PassiveClock

	mu       sync.Mutex
	refusals spell
	drops    spell
}

// spell is what has been said of one kind of failure.
type spell struct {
	until  time.Time
	untold int
}

func newFailures(log logr.Logger) *failures { return &failures{log: log, clock: clock.RealClock{}} }

// Handle implements otel.ErrorHandler. The error's text is not shown: it quotes the endpoint, which may hold a password, and
// what the collector answers.
func (f *failures) Handle(err error) {
	f.say(&f.refusals, "tracing: spans are not taken by the collector", "reason", classOf(err))
}

// full tells that a span was dropped.
func (f *failures) full() {
	f.say(&f.drops, "tracing: spans are dropped, for they come faster than they can be sent")
}

func (f *failures) say(s *spell, message string, keys ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if now.Before(s.until) {
		s.untold++
		return
	}
	f.log.Info(message, append(keys, "more", s.untold)...)
	s.until, s.untold = now.Add(quiet), 0
}

// httpStatus finds the status of an answer in what otlptracehttp says of it; all but the digits is the collector's own text.
var httpStatus = regexp.MustCompile(`failed to send to .*?: ([1-5][0-9]{2}) `)

// classOf says why spans did not arrive, in words of our own.
func classOf(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var name *net.DNSError
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK && s.Code() != codes.Unknown {
		return "gRPC " + s.Code().String()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &invalid):
		return "its certificate is not accepted"
	case errors.As(err, &name):
		return "its name is not found"
	}
	if m := httpStatus.FindStringSubmatch(err.Error()); m != nil {
		return "HTTP " + m[1]
	}
	return "other"
}
