package discovery

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// exchange is one request's answer and what the middlewares know of it.
type exchange struct {
	http.ResponseWriter
	// status is 0 until the header is written.
	status int
	// route is the pattern that matched, empty when none did.
	route     string
	principal Principal
}

// handler is what middlewares and routes are made of.
type handler func(x *exchange, r *http.Request)

// Unwrap serves http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write notes that a header is implied.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	return x.ResponseWriter.Write(b)
}

// json answers with body, which must be encodable. No answer may be stored: leases and lists are true only now.
func (x *exchange) json(status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		// Every body is a struct of this package made of plain values.
		panic(err)
	}
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(encoded)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(status)
	// A client that went away is its own affair.
	_, _ = x.Write(encoded)
}

func (x *exchange) noContent() {
	x.Header().Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusNoContent)
}
