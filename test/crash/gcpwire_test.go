package crash

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// wire is a server under whose address each operator process reaches its world's emulator: /<process>/compute/v1/….
type wire struct {
	url string

	mu   sync.Mutex
	next int
	ends map[string]*end
}

// end is one operator process's end of the wire. What one sends that is dead or deposed gets lost.
type end struct {
	c    *compute
	w    *world
	name string
	mu   sync.Mutex // makes what the server has done known to the process, for the race detector knows nothing of sockets
	over any        // the panic that ended the process
}

func newWire(t *testing.T) *wire {
	t.Helper()
	x := &wire{ends: map[string]*end{}}
	s := httptest.NewServer(x)
	t.Cleanup(s.Close)
	x.url = s.URL
	return x
}

// connect makes an end for a process that starts now.
func (x *wire) connect(c *compute, w *world) *end {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next++
	e := &end{c: c, w: w, name: fmt.Sprint(x.next)}
	x.ends[e.name] = e
	return e
}

func (x *wire) disconnect(e *end) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.ends, e.name)
}

// ServeHTTP answers a request, or breaks the connection where the answer gets lost.
func (x *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	x.mu.Lock()
	e := x.ends[name]
	x.mu.Unlock()
	if e == nil {
		panic(http.ErrAbortHandler)
	}
	var answer *httptest.ResponseRecorder
	http.StripPrefix("/"+name, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { answer = e.carry(r) })).ServeHTTP(rw, r)
	if answer == nil {
		panic(http.ErrAbortHandler)
	}
	for key, values := range answer.Header() {
		rw.Header()[key] = values
	}
	rw.WriteHeader(answer.Code)
	_, _ = rw.Write(answer.Body.Bytes())
}

// remote is a provider in a process that can be killed while it waits for an answer.
type remote struct {
	provider.Provider
	e *end
}

// mourn ends the process where the wire has.
func (p *remote) mourn() {
	p.e.mu.Lock()
	over := p.e.over
	p.e.mu.Unlock()
	if over != nil {
		panic(over)
	}
}

func (p *remote) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	defer p.mourn()
	return p.Provider.Create(ctx, req, ref)
}

func (p *remote) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	defer p.mourn()
	return p.Provider.Get(ctx, ref)
}

func (p *remote) Delete(ctx context.Context, ref provider.Ref) error {
	defer p.mourn()
	return p.Provider.Delete(ctx, ref)
}

func (p *remote) ListByTag(ctx context.Context) (provider.Listing, error) {
	defer p.mourn()
	return p.Provider.ListByTag(ctx)
}
