package gcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

const (
	// wireLevel is the verbosity at which requests are logged one by one.
	wireLevel = 5
	// maxPayload bounds what is logged of a body, in bytes.
	maxPayload = 16 << 10
	withheld   = "withheld"
)

// wireLog logs requests and answers at V(5). It stands where requests have no token yet. Of bodies it shows the length, and
// with payloads what is in them, except for metadata: that holds cloud-init.
type wireLog struct {
	next     http.RoundTripper
	payloads bool
}

// RoundTrip sends the request.
func (w *wireLog) RoundTrip(r *http.Request) (*http.Response, error) {
	if !logf.FromContext(r.Context()).V(wireLevel).Enabled() {
		return w.next.RoundTrip(r)
	}
	log := logger(r.Context()).V(wireLevel).WithValues("method", r.Method, "path", r.URL.Path)
	asked := []any{"query", r.URL.RawQuery, "bytes", r.ContentLength}
	if w.payloads && r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			data, _ := io.ReadAll(io.LimitReader(body, maxPayload+maxMetadata))
			asked = append(asked, "body", shown(data))
		}
	}
	log.Info("request", asked...)
	began := time.Now()
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		log.Info("no answer", "took", time.Since(began).String())
		return nil, err
	}
	answered := []any{"status", resp.StatusCode, "bytes", resp.ContentLength, "took", time.Since(began).String()}
	if w.payloads {
		head, err := io.ReadAll(io.LimitReader(resp.Body, maxPayload))
		resp.Body = &rejoined{Reader: io.MultiReader(bytes.NewReader(head), failing{err}, resp.Body), Closer: resp.Body}
		answered = append(answered, "body", shown(head))
	}
	log.Info("answer", answered...)
	return resp, nil
}

// shown is a body as it may be logged: JSON without metadata. What cannot be told to be without is withheld.
func shown(body []byte) any {
	if len(body) == 0 {
		return nil
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return withheld
	}
	v = hideMetadata(v)
	if out, err := json.Marshal(v); err != nil || len(out) > maxPayload {
		return withheld
	}
	return v
}

// hideMetadata takes metadata out, also where a message quotes it.
func hideMetadata(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if key == "metadata" || key == "fingerprint" {
				v[key] = withheld
				continue
			}
			v[key] = hideMetadata(value)
		}
	case []any:
		for i, value := range v {
			v[i] = hideMetadata(value)
		}
	case string:
		return message.Discreet(withoutMetadata(v)) // an answer may repeat the request, the token in its head included
	}
	return v
}

// rejoined is a body of which the beginning has been read.
type rejoined struct {
	io.Reader
	io.Closer
}

// failing repeats the error with which reading the beginning ended.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return 0, io.EOF
}

// CloseIdleConnections is called by http.Client.
func (w *wireLog) CloseIdleConnections() {
	if c, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
