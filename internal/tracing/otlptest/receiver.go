// Package otlptest is a collector for tests: it takes spans by OTLP, over gRPC and HTTP, and keeps them.
package otlptest

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Span is one span with who sent it.
type Span struct {
	*traces.Span
	Resource *resource.Resource
}

// Receiver is a collector on this host's loopback.
type Receiver struct {
	collector.UnimplementedTraceServiceServer
	// GRPC and HTTP are its addresses, host:port.
	GRPC, HTTP string

	mu       sync.Mutex
	spans    []Span
	requests []Request
	payloads [][]byte
	changed  chan struct{}
	conns    int
}

// Request is one delivery by HTTP.
type Request struct {
	Path, ContentType string
	Header            http.Header
}

// maxBody bounds one delivery in bytes.
const maxBody = 64 << 20

// New starts a receiver that ends with the test.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := &Receiver{changed: make(chan struct{})}
	r.GRPC, r.HTTP = r.listen(t, r.serveGRPC), r.listen(t, r.serveHTTP)
	return r
}

func (r *Receiver) listen(t testing.TB, serve func(net.Listener) (stop func())) string {
	t.Helper()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serve(counting{l, r}))
	return l.Addr().String()
}

func (r *Receiver) serveGRPC(l net.Listener) (stop func()) {
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	return func() { s.Stop(); <-done }
}

func (r *Receiver) serveHTTP(l net.Listener) (stop func()) {
	s := &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	return func() { _ = s.Close(); <-done }
}

// counting counts connections.
type counting struct {
	net.Listener
	r *Receiver
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.r.mu.Lock()
		c.r.conns++
		c.r.mu.Unlock()
	}
	return conn, err
}

// Export implements the service over gRPC.
func (r *Receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	// As it came, but for the order of fields: what is not known of a message is kept in it.
	data, err := proto.Marshal(req)
	if err != nil {
		return nil, err
	}
	r.add(req, data, nil)
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r *Receiver) take(w http.ResponseWriter, q *http.Request) {
	var body io.Reader = http.MaxBytesReader(w, q.Body, maxBody)
	if q.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = io.LimitReader(z, maxBody)
	}
	data, err := io.ReadAll(body)
	req := &collector.ExportTraceServiceRequest{}
	if err == nil {
		if q.Header.Get("Content-Type") == "application/json" {
			err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, req)
		} else {
			err = proto.Unmarshal(data, req)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.add(req, data, &Request{Path: q.URL.Path, ContentType: q.Header.Get("Content-Type"), Header: q.Header.Clone()})
	w.Header().Set("Content-Type", q.Header.Get("Content-Type"))
}

func (r *Receiver) add(req *collector.ExportTraceServiceRequest, data []byte, by *Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.payloads = append(r.payloads, data)
	if by != nil {
		r.requests = append(r.requests, *by)
	}
	for _, rs := range req.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			for _, s := range ss.GetSpans() {
				r.spans = append(r.spans, Span{s, rs.GetResource()})
			}
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// Spans returns all that have come.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Payloads returns the bodies of all deliveries, uncompressed.
func (r *Receiver) Payloads() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([][]byte(nil), r.payloads...)
}

// Requests returns the deliveries by HTTP.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.requests...)
}

// Connections returns how many were made.
func (r *Receiver) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conns
}

// Until blocks until ok holds of what has come, for a minute at most. It reports whether it does.
func (r *Receiver) Until(ctx context.Context, ok func([]Span) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		r.mu.Lock()
		changed, spans := r.changed, append([]Span(nil), r.spans...)
		r.mu.Unlock()
		if ok(spans) {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
