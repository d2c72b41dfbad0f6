package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// wire is the way from the provider to the API server, and what befalls requests on it.
type wire struct {
	next http.RoundTripper

	mu     sync.Mutex
	faults []*fault
	late   []lateRequest
	now    func() time.Time
	seen   []string
}

// fault is one thing that happens to requests.
type fault struct {
	match func(*http.Request) bool
	once  bool
	// do answers in the place of the server; nil lets the request through.
	do func(*http.Request, http.RoundTripper) (*http.Response, error)
}

type lateRequest struct {
	due time.Time
	r   *http.Request
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.seen = append(w.seen, r.Method+" "+r.URL.Path)
	var hit *fault
	for i, f := range w.faults {
		if f.match(r) {
			hit = f
			if f.once {
				w.faults = append(w.faults[:i:i], w.faults[i+1:]...)
			}
			break
		}
	}
	next := w.next // another provider may be under construction
	w.mu.Unlock()
	if hit != nil {
		return hit.do(r, next)
	}
	return next.RoundTrip(r)
}

// add installs a fault; remove takes it away.
func (w *wire) add(f *fault) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.faults {
			if w.faults[i] == f {
				w.faults = append(w.faults[:i:i], w.faults[i+1:]...)
				return
			}
		}
	}
}

func on(method, resource string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && (strings.HasSuffix(r.URL.Path, "/"+resource) || strings.Contains(r.URL.Path, "/"+resource+"/"))
	}
}

func method(m string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == m }
}

func always(*http.Request) bool { return true }

// hold pauses the next request that matches.
func (w *wire) hold(match func(*http.Request) bool) (<-chan struct{}, func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	w.add(&fault{match: match, once: true, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		close(reached)
		select {
		case <-released:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return next.RoundTrip(r)
	}})
	var once sync.Once
	return reached, func() { once.Do(func() { close(released) }) }
}

var errLost = errors.New("the answer is lost")

// lose lets the next request that matches through, and not its answer.
func (w *wire) lose(match func(*http.Request) bool) {
	w.add(&fault{match: match, once: true, do: func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if resp, err := next.RoundTrip(r); err == nil {
			_ = resp.Body.Close()
		}
		return nil, errLost
	}})
}

// delay lets the next request that matches arrive after d. Its caller gets an error, or an answer as if it had arrived.
func (w *wire) delay(match func(*http.Request) bool, d time.Duration, answered bool) {
	w.add(&fault{match: match, once: true, do: func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		again := r.Clone(context.Background())
		again.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.late = append(w.late, lateRequest{w.now().Add(d), again})
		w.mu.Unlock()
		if !answered {
			return nil, errLost
		}
		return &http.Response{
			StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {r.Header.Get("Content-Type")}},
			Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		}, nil
	}})
}

// settle lets what is due arrive, and reports whether anything is still on its way.
func (w *wire) settle() (waiting bool) {
	w.mu.Lock()
	var due, later []lateRequest
	for _, l := range w.late {
		if w.now().Before(l.due) {
			later = append(later, l)
		} else {
			due = append(due, l)
		}
	}
	w.late = later
	next := w.next
	w.mu.Unlock()
	for _, l := range due {
		if resp, err := next.RoundTrip(l.r); err == nil {
			_ = resp.Body.Close()
		}
	}
	return len(later) > 0
}

// refuse answers as the API server does.
func refuse(code int, reason, message string, header http.Header) func(*http.Request, http.RoundTripper) (*http.Response, error) {
	return func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		h := header.Clone()
		if h == nil {
			h = http.Header{}
		}
		h.Set("Content-Type", "application/json")
		body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
		if reason == "" {
			h.Set("Content-Type", "text/plain")
			body = message
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}
