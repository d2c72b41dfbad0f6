package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
)

// Reasons of an Error.
const (
	// Unreachable: the address cannot be read or its name found, there is no way to the host, or it refuses the connection.
	Unreachable = "Unreachable"
	// Timeout: the context, or the system's own patience, ended before the host had answered.
	Timeout = "Timeout"
	// SSHHandshakeFailed: what listens there does not speak SSH, hangs up, or shares no algorithm with us.
	SSHHandshakeFailed = "SSHHandshakeFailed"
	// HostKeyUnknown: no key of the host is on record.
	HostKeyUnknown = "HostKeyUnknown"
	// HostKeyMismatch: the host shows none of the keys on record, or a certificate that does not hold for it.
	HostKeyMismatch = "HostKeyMismatch"
	// HostKeyRevoked: the host shows a key that is on record as revoked, or that a revoked authority has signed.
	HostKeyRevoked = "HostKeyRevoked"
	// SSHAuthFailed: the host does not let the user in with the key.
	SSHAuthFailed = "SSHAuthFailed"
	// KeyUnreadable: the private key, or the certificate beside it, is missing, malformed or protected by a passphrase.
	KeyUnreadable = "KeyUnreadable"
	// KnownHostsUnreadable: the known_hosts file is missing, malformed or empty.
	KnownHostsUnreadable = "KnownHostsUnreadable"
	// LibvirtUnreachable: the host is there, but the way to libvirt's socket is not.
	LibvirtUnreachable = "LibvirtUnreachable"
)

// Error is why a Dial failed. Its text names the host or the file and what to do. It is the same each time for the same
// cause, holds nothing of a private key, and nothing that the far side has put into words; a condition may show it. The
// chain behind Err holds the library's own words, which keep none of that.
type Error struct {
	// Reason is one of the reasons above.
	Reason string
	// Err is what happened.
	Err error
}

// Error returns what happened.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap makes the cause visible to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// worded is an error in words of our own.
type worded struct {
	text string
	err  error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.err }

// failed returns an Error with our words for cause, which may be nil.
func failed(reason string, cause error, format string, args ...any) *Error {
	return &Error{reason, &worded{fmt.Sprintf(format, args...), cause}}
}

// ended is the Error of a context that has ended while the host was waited for.
func ended(ctx context.Context, whom, doing string) *Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return failed(Timeout, ctx.Err(), "%s was to %s when the attempt was cancelled", whom, doing)
	}
	return late(ctx.Err(), whom, doing)
}

func late(cause error, whom, doing string) *Error {
	return failed(Timeout, cause, "%s did not answer in time to %s; see its load, and what is between", whom, doing)
}

// reduced says in words that do not change why a system call failed: the addresses of our end, which the net package puts
// into its errors, do.
func reduced(err error) string {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e.Error()
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return "DNS does not know the name"
		}
		return "DNS cannot be asked"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	return "no connection"
}

// timedOut reports whether the system gave up waiting.
func timedOut(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// broken reports whether err is about the connection, not about what was said over it.
func broken(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok
}
