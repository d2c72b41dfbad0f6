package gcp_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// connections counts those that a server has open.
type connections struct {
	mu   sync.Mutex
	open map[net.Conn]bool
	gone chan struct{}
}

func (c *connections) track(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = true
	case http.StateClosed:
		if delete(c.open, conn); len(c.open) == 0 {
			c.gone <- struct{}{}
		}
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}

func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

func watched(h http.Handler) (*httptest.Server, *connections) {
	c := &connections{open: map[net.Conn]bool{}, gone: make(chan struct{}, 100)}
	s := httptest.NewUnstartedServer(h)
	s.Config.ConnState = c.track
	s.Start()
	return s, c
}

// A provider that is closed has no connection left, neither to the API nor to who gives out tokens. That none leaves a goroutine
// is what TestMain looks for.
func TestCloseLeavesNothingOpen(t *testing.T) {
	w := newGuarded(t)
	tokens, toTokens := watched(http.HandlerFunc(w.token))
	defer tokens.Close()
	front, toAPI := watched(w.emulator)
	defer front.Close()
	w.tokens = tokens.URL
	w.write(w.key(t, "first"))
	config := "project: project-a\nendpoint: " + front.URL + "\ncredentialsFile: " + w.file + "\n"
	idle, err := w.open(entry, owner, config)
	must(w.t, err)
	must(w.t, idle.Close())
	p, err := w.open(entry, owner, config)
	must(w.t, err)
	ref, _ := w.create(p)
	w.list(p)
	if toAPI.count() == 0 || toTokens.count() == 0 {
		t.Error("there were no connections to begin with")
	}
	must(w.t, p.Close())
	<-toAPI.gone
	<-toTokens.gone
	must(w.t, p.Close()) // again
	// Calls under way when the configuration changed may end later than that.
	w.expect(t, "after it was closed", p, ref, "Running")
	must(w.t, p.Close())
	<-toAPI.gone
}

// To construct one takes neither the API nor credentials.
func TestNewAsksNobody(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p, err := w.open(entry, owner, "project: project-a\ncredentialsFile: /does/not/exist\nendpoint: http://127.0.0.1:1\n")
	must(w.t, err)
	must(w.t, p.Close())
	if n := w.sent(); n != 0 {
		t.Errorf("%d calls", n)
	}
}
