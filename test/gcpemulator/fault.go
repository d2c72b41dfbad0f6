package gcpemulator

import (
	"net/http"
	"time"
)

// Fault is what befalls one call. The zero value is none; several that apply to one call add up, the later ones winning.
type Fault struct {
	// OnCall, where set, is called when the request has been received, without a lock held.
	OnCall func()
	// Hold pauses the call before it takes effect, HoldAnswer after, until the channel is closed or the caller gives up.
	Hold, HoldAnswer <-chan struct{}
	held             func() // reached

	// Status is what the caller gets, with Reason, Message, Domain ("global"), RetryAfter (the header, verbatim) and
	// Details (google.rpc.Status details as JSON objects).
	Status                              int
	Reason, Message, Domain, RetryAfter string
	Details                             []any
	// Body is what the caller gets instead of JSON; HTML is a page as front ends and middleboxes send it.
	Body string
	HTML bool
	// Reset breaks the connection without an answer. Note that net/http by itself repeats a GET once whose connection
	// breaks, if the connection had been used before. Hang never answers.
	Reset, Hang bool
	// Applied makes the call take effect although the caller gets one of the above.
	Applied bool
	// ArriveAfter lets the call take effect only after that time. The caller gets one of the above, else a reset.
	ArriveAfter time.Duration

	// ShowAfter delays by that much when the effect of an accepted insert or deletion can be read.
	ShowAfter time.Duration
	// Late makes the operation of an accepted insert or deletion end badly.
	Late *Late
}

// Late is how an operation ends.
type Late struct {
	// Errors are its errors; without any, and with Warnings, it ends well.
	Errors, Warnings []OperationError
	// Status is the operation's httpErrorStatusCode; default is what goes with the first error's code.
	Status int32
	// After passes between the acceptance and the end; default is what the delays say.
	After time.Duration
	// Leaves is what an insert that fails leaves. A deletion that fails leaves the instance as it was, or, with
	// LeavesDisk, its disk.
	Leaves Leaves
}

// Leaves is what an operation that failed leaves behind.
type Leaves int

// The parts that may be left.
const (
	LeavesNothing Leaves = iota
	LeavesDisk
	LeavesInstance
)

// OperationError is an error or a warning of an operation.
type OperationError struct{ Code, Message string }

func (f *Fault) answers() bool { return f.Status != 0 || f.Body != "" || f.HTML || f.Reset || f.Hang }

// add puts other on top of f.
func (f *Fault) add(other Fault) {
	set(&f.Status, other.Status)
	set(&f.Reason, other.Reason)
	set(&f.Message, other.Message)
	set(&f.Domain, other.Domain)
	set(&f.RetryAfter, other.RetryAfter)
	set(&f.Body, other.Body)
	set(&f.ArriveAfter, other.ArriveAfter)
	set(&f.ShowAfter, other.ShowAfter)
	set(&f.Late, other.Late)
	set(&f.Hold, other.Hold)
	set(&f.HoldAnswer, other.HoldAnswer)
	f.HTML = f.HTML || other.HTML
	f.Reset = f.Reset || other.Reset
	f.Hang = f.Hang || other.Hang
	f.Applied = f.Applied || other.Applied
	if other.Details != nil {
		f.Details = other.Details
	}
	if other.OnCall != nil {
		f.OnCall = other.OnCall
	}
	if other.held != nil {
		f.held = other.held
	}
}

func set[T comparable](to *T, from T) {
	var zero T
	if from != zero {
		*to = from
	}
}

// write answers as the fault says.
func (f *Fault) write(w http.ResponseWriter, r *http.Request) {
	switch {
	case f.Hang:
		<-r.Context().Done()
	case f.HTML:
		f.header(w)
		writeHTML(w, f.status(), http.StatusText(f.status()))
	case f.Body != "":
		f.header(w)
		w.WriteHeader(f.status())
		_, _ = w.Write([]byte(f.Body))
	case f.Status != 0 && !f.Reset:
		e := &apiError{
			code: f.Status, reason: f.Reason, message: f.Message, domain: f.Domain,
			retryAfter: f.RetryAfter, details: f.Details,
		}
		if e.message == "" {
			e.message = http.StatusText(f.Status)
		}
		if e.reason == "" {
			e.reason = usualReason(f.Status)
		}
		e.write(w)
	default:
		reset(w)
	}
}

func (f *Fault) header(w http.ResponseWriter) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
}

func (f *Fault) status() int {
	if f.Status == 0 {
		return http.StatusBadGateway
	}
	return f.Status
}

// usualReason is the reason that goes with a status where the test does not care.
func usualReason(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "badRequest"
	case http.StatusUnauthorized:
		return "authError"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "notFound"
	case http.StatusTooManyRequests:
		return "rateLimitExceeded"
	}
	return "backendError"
}
