package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
)

const (
	maxIDBytes      = 255
	maxMessageBytes = 300
	// maxTTL is more than any server grants, and far from where durations overflow.
	maxTTL = 10 * 365 * 24 * time.Hour
)

// wrong is an answer whose member is not what the API says.
func wrong(member, why string) error {
	return fmt.Errorf("%w: member %s %s", ErrBadAnswer, member, why)
}

// decode reads body into the struct that into points to. Members that the client does not know are left out: a newer server
// may send more.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &kind) && kind.Field != "":
		return wrong(kind.Field, "has the wrong type")
	case errors.As(err, &kind):
		return fmt.Errorf("%w: it is not a JSON object", ErrBadAnswer)
	}
	return fmt.Errorf("%w: it is not JSON", ErrBadAnswer)
}

type wireError struct {
	Error      string  `json:"error"`
	Message    string  `json:"message"`
	Considered *int    `json:"considered"`
	AtCapacity int     `json:"atCapacity"`
	InCooldown int     `json:"inCooldown"`
	Unhealthy  int     `json:"unhealthy"`
	FreeAt     *string `json:"freeAt"`
}

// failure makes an error of an answer other than the one wanted: *NoMatchError, *APIError, or ErrBadAnswer.
func (a *answer) failure() error {
	if a.status < 300 || a.status > 599 {
		return fmt.Errorf("%w: unexpected HTTP status %d", ErrBadAnswer, a.status)
	}
	after := parseRetryAfter(a.header, a.at)
	var w wireError
	if decode(a.body, &w) != nil || !errorCode(w.Error) {
		return &APIError{Status: a.status, Message: http.StatusText(a.status), RetryAfter: after}
	}
	if w.Error != "no_match" {
		return &APIError{Status: a.status, Code: w.Error, Message: printable(w.Message), RetryAfter: after}
	}
	e := &NoMatchError{AtCapacity: w.AtCapacity, InCooldown: w.InCooldown, Unhealthy: w.Unhealthy, RetryAfter: after}
	if w.Considered == nil {
		return wrong("considered", "is missing")
	}
	e.Considered = *w.Considered
	if min(e.Considered, e.AtCapacity, e.InCooldown, e.Unhealthy) < 0 {
		return wrong("considered", "or one of its parts is negative")
	}
	if w.FreeAt != nil {
		at, err := time.Parse(time.RFC3339, *w.FreeAt)
		if err != nil {
			return wrong("freeAt", "is not a time")
		}
		e.FreeAt = at
	}
	return e
}

// errorCode reports whether s is shaped like a code of the API.
func errorCode(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') })
}

// printable bounds s and takes out what could forge a log line.
func printable(s string) string {
	if len(s) > maxMessageBytes {
		s = strings.ToValidUTF8(s[:maxMessageBytes], "")
	}
	return strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return '?'
		}
		return c
	}, s)
}

type wireLease struct {
	LeaseID    string    `json:"leaseID"`
	Proxy      wireProxy `json:"proxy"`
	ExpiresAt  string    `json:"expiresAt"`
	TTLSeconds *int64    `json:"ttlSeconds"`
	Epoch      string    `json:"epoch"`
}

// grant is what the server says of a lease.
type grant struct {
	id, epoch string
	proxy     Proxy
	ttl       time.Duration
}

// grant reads the answer to a request about one lease. A renewal at the very end of a lease's longest life gives less than
// a second, which reads as 0.
func (a *answer) grant() (grant, error) {
	var w wireLease
	if err := decode(a.body, &w); err != nil {
		return grant{}, err
	}
	switch {
	case !visible(w.LeaseID, maxIDBytes):
		return grant{}, wrong("leaseID", "must be 1 to 255 visible ASCII characters")
	case !visible(w.Epoch, maxIDBytes):
		return grant{}, wrong("epoch", "must be 1 to 255 visible ASCII characters")
	case w.TTLSeconds == nil || *w.TTLSeconds < 0 || *w.TTLSeconds > int64(maxTTL/time.Second):
		return grant{}, wrong("ttlSeconds", "is missing or out of range")
	}
	if _, err := time.Parse(time.RFC3339, w.ExpiresAt); err != nil {
		return grant{}, wrong("expiresAt", "is not a time")
	}
	p, err := w.Proxy.proxy("proxy.")
	switch {
	case err != nil:
		return grant{}, err
	case p.URL == "":
		return grant{}, wrong("proxy.url", "is missing")
	}
	return grant{id: w.LeaseID, epoch: w.Epoch, proxy: p, ttl: time.Duration(*w.TTLSeconds) * time.Second}, nil
}

func visible(s string, most int) bool {
	return s != "" && len(s) <= most && !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

type wireProxy struct {
	Namespace           string            `json:"namespace"`
	Name                string            `json:"name"`
	URL                 string            `json:"url"`
	IP                  string            `json:"ip"`
	Port                int               `json:"port"`
	Provider            string            `json:"provider"`
	Mode                string            `json:"mode"`
	Attributes          map[string]string `json:"attributes"`
	Phase               string            `json:"phase"`
	Healthy             bool              `json:"healthy"`
	LatencyMillis       *int64            `json:"latencyMillis"`
	ExitAddress         string            `json:"exitAddress"`
	ActiveLeases        int               `json:"activeLeases"`
	MaxConcurrentLeases int               `json:"maxConcurrentLeases"`
	Cordoned            bool              `json:"cordoned"`
	Auth                *struct {
		Username string `json:"username"`
		Password string `json:"password"`
	} `json:"auth"`
}

// proxy checks w; at is where it stands in the answer.
func (w *wireProxy) proxy(at string) (Proxy, error) {
	switch {
	case w.Namespace == "" || strings.Contains(w.Namespace, "/"):
		return Proxy{}, wrong(at+"namespace", "is missing or holds a slash")
	case w.Name == "" || strings.Contains(w.Name, "/"):
		return Proxy{}, wrong(at+"name", "is missing or holds a slash")
	case w.Port < 0 || w.Port > 65535:
		return Proxy{}, wrong(at+"port", "is out of range")
	case w.ActiveLeases < 0:
		return Proxy{}, wrong(at+"activeLeases", "is negative")
	case w.MaxConcurrentLeases < 0:
		return Proxy{}, wrong(at+"maxConcurrentLeases", "is negative")
	case w.LatencyMillis != nil && (*w.LatencyMillis < 0 || *w.LatencyMillis > time.Hour.Milliseconds()):
		return Proxy{}, wrong(at+"latencyMillis", "is out of range")
	case w.URL != "" && !proxyURL(w.URL):
		return Proxy{}, wrong(at+"url", "is not http://host:port")
	}
	p := Proxy{
		Namespace: w.Namespace, Name: w.Name, URL: w.URL, IP: w.IP, Port: w.Port, Provider: w.Provider, Mode: w.Mode,
		Attributes: w.Attributes, Phase: w.Phase, Healthy: w.Healthy, ExitAddress: w.ExitAddress,
		ActiveLeases: w.ActiveLeases, MaxConcurrentLeases: w.MaxConcurrentLeases, Cordoned: w.Cordoned,
	}
	if w.LatencyMillis != nil {
		// Zero stands for an unknown latency.
		p.Latency = max(time.Duration(*w.LatencyMillis)*time.Millisecond, time.Microsecond)
	}
	if a := w.Auth; a != nil {
		if a.Username == "" || strings.Contains(a.Username, ":") {
			return Proxy{}, wrong(at+"auth.username", "is missing or holds a colon")
		}
		p.Auth = &Credentials{Username: a.Username, Password: NewSecret(a.Password)}
	}
	return p, nil
}

func proxyURL(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.Port() != "" &&
		u.User == nil && u.Path == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}
