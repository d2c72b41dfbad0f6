package discovery

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// exchange is one request's answer and what the middlewares know of it.
type exchange struct {
	http.ResponseWriter
	// status is 0 until the header is written.
	status int
	// route is the pattern that matched, empty when none did.
	route     string
	principal Principal
	// began is when the request came; waits: it is one for a lease that may wait for a proxy.
	began time.Time
	waits bool
	// body is nil when the request has none.
	body *incoming
}

// incoming is the body of a request.
type incoming struct {
	io.ReadCloser
	// over: nothing more can come, because that was all or because reading failed.
	over bool
}

// Read implements io.Reader.
func (b *incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.over = b.over || err != nil
	return n, err
}

// restTime is for how long net/http waits for the rest of a body that no handler has asked for, to answer and to keep the
// connection for the next request.
const restTime = time.Second

// handler is what middlewares and routes are made of.
type handler func(x *exchange, r *http.Request)

// Unwrap serves http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	x.begin(status)
	x.ResponseWriter.WriteHeader(status)
}

// Write notes that a header is implied.
func (x *exchange) Write(b []byte) (int, error) {
	x.begin(http.StatusOK)
	return x.ResponseWriter.Write(b)
}

// begin is called before anything of the answer is written. A body that does not come must not keep the connection for
// as long as one that is read.
func (x *exchange) begin(status int) {
	if x.status != 0 {
		return
	}
	x.status = status
	if x.body != nil && !x.body.over {
		// Where it cannot be set there is no connection, or none any more.
		_ = http.NewResponseController(x.ResponseWriter).SetReadDeadline(time.Now().Add(restTime))
	}
}

// maxPooled is the largest buffer that is kept for the next answer.
const maxPooled = 64 << 10

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// json answers with body, which must be encodable.
func (x *exchange) json(status int, body any) {
	b, _ := buffers.Get().(*bytes.Buffer)
	b.Reset()
	encode(b, body)
	x.encoded(status, b.Bytes())
	if b.Cap() <= maxPooled {
		buffers.Put(b)
	}
}

// encoded answers with body, which is JSON already.
func (x *exchange) encoded(status int, body []byte) {
	x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.isJSON()
	x.WriteHeader(status)
	// A client that went away is its own affair.
	_, _ = x.Write(body)
}

// isJSON sets the headers of a body. No answer may be stored: leases and lists are true only now.
func (x *exchange) isJSON() {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

func (x *exchange) noContent() {
	x.Header().Set("Cache-Control", "no-store")
	x.WriteHeader(http.StatusNoContent)
}
