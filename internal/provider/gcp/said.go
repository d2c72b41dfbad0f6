package gcp

import (
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/api/googleapi"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// verb is what a call asks the API to do; what a refusal means depends on it.
type verb string

const (
	verbGet    verb = "get"
	verbList   verb = "list"
	verbCreate verb = "insert"
	verbUpdate verb = "update"
	verbDelete verb = "delete"
)

// callError is how a call to the API ended, with what it was.
type callError struct {
	verb     verb
	resource string
	name     string
	err      error
}

func (e *callError) Error() string {
	if e.name == "" {
		return string(e.verb) + " " + e.resource + ": " + e.err.Error()
	}
	return string(e.verb) + " " + e.resource + " " + e.name + ": " + e.err.Error()
}

func (e *callError) Unwrap() error { return e.err }

// fail turns what went wrong into the contract's error, and makes the next check ask.
func (p *Provider) fail(op, id string, err error) *provider.Error {
	p.heard.forget()
	v := classify(err)
	return provider.Wrap(v.class, op, p.name, id, said(err)).WithReason(v.reason).WithRetryAfter(v.retry)
}

// cleaned is an error with a text that may be shown.
type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }
func (c *cleaned) Unwrap() error { return c.err }

func said(err error) error {
	text := err.Error()
	if answer, ok := errors.AsType[*googleapi.Error](err); ok {
		// Its own text repeats the whole body, which for a gateway's page says nothing.
		what := answer.Message
		if what == "" {
			what = http.StatusText(answer.Code)
		}
		text = strconv.Itoa(answer.Code) + " " + what
		if reasons := reasonsOf(answer); len(reasons) > 0 {
			text += " (" + strings.Join(reasons, ", ") + ")"
		}
		if call, ok := errors.AsType[*callError](err); ok {
			text = (&callError{call.verb, call.resource, call.name, errors.New(text)}).Error()
		}
	}
	return &cleaned{message.Clean(withoutMetadata(text)), err}
}

// quoted is where a message about metadata, which holds cloud-init, begins to quote what it is about.
var quoted = regexp.MustCompile(`(?is)(metadata[^'":]*)['":].*`)

// withoutMetadata cuts what may be cloud-init off a message: the API repeats values that it does not take.
func withoutMetadata(text string) string { return quoted.ReplaceAllString(text, "$1 …") }

// absent reports whether the API says that what was asked for by name is not there. It says the same of a thing in a zone or a
// project that is not there; whoever concludes something from it has to know that those are.
func absent(err error) bool {
	answer, ok := errors.AsType[*googleapi.Error](err)
	return ok && answer.Code == http.StatusNotFound && len(answer.Errors) > 0 && answer.Errors[0].Reason == "notFound"
}

// conflicts reports whether the API says that the name is taken.
func conflicts(err error) bool {
	answer, ok := errors.AsType[*googleapi.Error](err)
	return ok && answer.Code == http.StatusConflict
}

// invalid reports whether the API does not take a request as it is.
func invalid(err error) bool {
	answer, ok := errors.AsType[*googleapi.Error](err)
	return ok && answer.Code == http.StatusBadRequest
}
