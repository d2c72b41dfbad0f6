package discovery

import (
	"bytes"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
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

// maxPooled is the largest buffer that is kept for the next answer.
const maxPooled = 1 << 20

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// json answers with body, which must be encodable. Not encoding/json: sorting the attributes by reflection costs it more
// than everything else that a lease takes beside HTTP, and several times its size for a long list.
func (x *exchange) json(status int, body any) {
	b, _ := buffers.Get().(*bytes.Buffer)
	b.Reset()
	if err := json.MarshalWrite(b, body, json.Deterministic(true)); err != nil {
		// Every body is a struct of this package made of plain values.
		panic(err)
	}
	x.encoded(status, b.Bytes())
	if b.Cap() <= maxPooled {
		buffers.Put(b)
	}
}

// encoded answers with body, which is JSON already. No answer may be stored: leases and lists are true only now.
func (x *exchange) encoded(status int, body []byte) {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(status)
	// A client that went away is its own affair.
	_, _ = x.Write(body)
}

func (x *exchange) noContent() {
	x.Header().Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusNoContent)
}
