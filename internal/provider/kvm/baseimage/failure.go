package baseimage

import (
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// How long a failure is left alone: doubled each time, or the longest at once where somebody has to mend something.
const (
	firstBackoff = 30 * time.Second
	maxBackoff   = 30 * time.Minute
)

// Progress says that an image is being downloaded. It is of the class provider.ErrTransient.
type Progress struct { //nolint:errname // it is what one waits for, not what went wrong
	// Image is its name.
	Image string
	// Percent of the bytes that have come, a multiple of 10.
	Percent int
}

// Error names the image and says how far it is.
func (p *Progress) Error() string {
	return fmt.Sprintf("image %q is being downloaded, %d %% so far", p.Image, p.Percent)
}

// Unwrap makes the class visible to errors.Is.
func (*Progress) Unwrap() error { return provider.ErrTransient }

// Failure is why an image is not there and no download of it runs.
type Failure struct { //nolint:errname // as Progress beside it
	// Class is ErrTransient, ErrPermanent, ErrQuotaExceeded or ErrDenied of package provider.
	Class error
	// Message may be shown: at most 512 bytes on one line, the same for the same failure, without secrets.
	Message string
	// RetryAfter is how long until the next Prepare tries again, 0 when nothing but another image or cache would help.
	RetryAfter time.Duration
	// asked is how long the server wants to be left alone.
	asked time.Duration
}

// Error returns the message.
func (f *Failure) Error() string { return f.Message }

// Unwrap makes the class visible to errors.Is. What was below is not shown: it may hold secrets.
func (f *Failure) Unwrap() error { return f.Class }

func fail(class error, format string, args ...any) *Failure {
	return &Failure{Class: class, Message: fmt.Sprintf(format, args...)}
}

// of returns f with the image's name, fit to be shown.
func (f *Failure) of(i Image) *Failure {
	named := *f
	named.Message = message.Clean(fmt.Sprintf("image %q: %s", i.Name, f.Message))
	return &named
}

// failed turns any error of a download into a Failure. Those of a Store keep their class.
func (n names) failed(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	class := provider.ErrTransient
	for _, c := range []error{provider.ErrQuotaExceeded, provider.ErrDenied, provider.ErrPermanent} {
		if errors.Is(err, c) {
			class = c
			break
		}
	}
	return fail(class, "%s", n.hide(err.Error()))
}

// backoff returns how long the failure is left alone after n in a row, n > 0.
func (f *Failure) backoff(n int) time.Duration {
	if f.Class == provider.ErrPermanent {
		return maxBackoff
	}
	wait := firstBackoff
	for ; n > 1 && wait < maxBackoff; n-- {
		wait *= 2
	}
	return min(max(wait, f.asked), maxBackoff)
}
