package discovery

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

type listView struct {
	Proxies []proxyView `json:"proxies"`
	// Count is that of this page.
	Count    int    `json:"count"`
	Continue string `json:"continue,omitzero"`
}

// Whether a list is made in one piece or in several, it is the JSON that encoding/json makes of it.
func TestListsAreTheSameJSONHoweverLong(t *testing.T) {
	f := newFixture(t)
	for i := range 400 {
		f.put(fmt.Sprintf("p%03d", i), func(p *fleet.Proxy) { p.Attributes = map[string]string{"n": strconv.Itoa(i), "country": "de"} })
	}
	for _, limit := range []int{1, 2, 50, 70, 100, 399, 400} {
		path := fmt.Sprintf("/v1/proxies?limit=%d", limit)
		a := f.want(t, http.StatusOK, http.MethodGet, path, "")
		var list listView
		a.into(t, &list)
		if list.Count != limit || len(list.Proxies) != limit || (list.Continue == "") != (limit == 400) {
			t.Errorf("limit %d: %d, %d, %q", limit, list.Count, len(list.Proxies), list.Continue)
		}
		if same, err := json.Marshal(list); err != nil || string(same) != a.text {
			t.Errorf("limit %d, %v:\n%.500s\n%.500s", limit, err, a.text, same)
		}
		small := len(a.text) < maxPiece
		if (a.ContentLength >= 0) != small || small && a.ContentLength != int64(len(a.text)) {
			t.Errorf("%d bytes are announced as %d", len(a.text), a.ContentLength)
		}
		head := f.want(t, http.StatusOK, http.MethodHead, path, "")
		if small && head.ContentLength != a.ContentLength || head.Header.Get("Content-Type") != "application/json" {
			t.Errorf("limit %d, HEAD: %d bytes, %v", limit, head.ContentLength, head.Header)
		}
	}
}

// A reader that is slow costs a piece of its list, not all of it.
func TestSlowReadersCostLittle(t *testing.T) {
	const readers, each = 16, 100 << 10 // 20 KB of it are what every connection costs
	f := newFixture(t)
	putLarge(f)
	f.ledger.Live() // takes the fleet in, which is no reader's cost
	before := memory()
	conns := make([]net.Conn, readers)
	for i := range conns {
		conns[i] = unread(t, f)
	}
	await(t, "all are being written", func() bool { return len(f.server.lists.all) == readers })
	cost := (settled() - before) / readers
	t.Logf("%d KiB each", cost>>10)
	if cost > each {
		t.Errorf("a reader costs %d KiB", cost>>10)
	}
	if listAnswered(f) {
		t.Error("a list was written in whole: this test shows nothing")
	}
	for _, conn := range conns {
		conn.Close()
	}
	await(t, "all have ended", func() bool { return len(f.server.lists.all) == 0 })
}

// putLong makes the list one of several pieces.
func putLong(f *fixture) {
	for i := range 40 {
		f.put(fmt.Sprintf("p%03d", i), func(p *fleet.Proxy) {
			p.Attributes = map[string]string{}
			for n := range 32 {
				p.Attributes[fmt.Sprintf("attribute-%d", n)] = strings.Repeat("x", 63)
			}
		})
	}
}

// Lists of more than a piece are bounded, in all and for each principal; shorter ones, and heads, are not.
func TestListsAreBounded(t *testing.T) {
	f := newFixture(t)
	putLong(f)
	take := func(n int, principal string) {
		for range n {
			if _, ok := f.server.lists.enter(t.Context(), principal, 0); !ok {
				t.Fatalf("no place for %s", principal)
			}
		}
	}
	refused := func() {
		t.Helper()
		a := f.want(t, http.StatusServiceUnavailable, http.MethodGet, "/v1/proxies", "")
		if got := a.code(t); got != "overloaded" || a.Header.Get("Retry-After") == "" || a.Close {
			t.Errorf("%s, Retry-After %q, the connection is closed: %t", got, a.Header.Get("Retry-After"), a.Close)
		}
	}
	take(maxLists/2, "one")
	if _, ok := f.server.lists.enter(t.Context(), "one", 0); ok {
		t.Error("one principal has more than half of the places")
	}
	f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", "")
	take(maxLists/2-1, "two")
	leave, ok := f.server.lists.enter(t.Context(), "three", 0)
	if !ok {
		t.Fatal("no place for a third principal")
	}
	refused()
	f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies?limit=1", "")
	f.want(t, http.StatusOK, http.MethodHead, "/v1/proxies", "")
	f.want(t, http.StatusBadRequest, http.MethodGet, "/v1/proxies?x=1", "")
	leave()
	for range 2 {
		f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", "")
	}
	if n, of := len(f.server.lists.all), len(f.server.lists.of); n != maxLists-1 || of != 2 {
		t.Errorf("%d lists of %d principals are being written", n, of)
	}
}

// A client that has closed its sending side and waits for a place gets an answer all the same.
func TestAHalfClosedClientIsToldThatThereAreTooManyLists(t *testing.T) {
	f := newFixture(t)
	putLong(f)
	for range maxLists {
		f.server.lists.all <- struct{}{}
	}
	conn, _ := dial(t, f)
	write(t, conn, request("GET", "/v1/proxies"))
	_ = conn.(*net.TCPConn).CloseWrite()
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	status, err := bufio.NewReader(conn).ReadString('\n')
	if !strings.Contains(status, " 503 ") {
		t.Errorf("%q, %v", status, err)
	}
}

// limited notes the deadline that an answer gets.
type limited struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (l *limited) SetWriteDeadline(t time.Time) error { l.until = t; return nil }

func TestListsHaveALimitOfTheirOwn(t *testing.T) {
	for writing, want := range map[time.Duration]time.Duration{time.Minute: listTime, time.Second: time.Second} {
		f := newFixture(t, open, func(o *Options) { o.WriteTimeout = writing })
		l := &limited{ResponseRecorder: httptest.NewRecorder()}
		start := time.Now()
		f.server.Handler().ServeHTTP(l, httptest.NewRequest(http.MethodGet, "/v1/proxies", http.NoBody))
		if l.until.Before(start.Add(want)) || l.until.After(time.Now().Add(want)) {
			t.Errorf("a list may take %s, want %s", l.until.Sub(start), want)
		}
		if l.Code != http.StatusOK {
			t.Error(l.Code)
		}
	}
}

// A list that could not be written in whole must not look as if it had been.
func TestAListThatIsCutOffDoesNotLookWhole(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.WriteTimeout = 100 * time.Millisecond })
	putLarge(f)
	conn, r := dial(t, f)
	write(t, conn, request("GET", "/v1/proxies?limit=1000"))
	await(t, "the list ends", func() bool { return listAnswered(f) })
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, resp.Body); err == nil || n >= largeBytes {
		t.Errorf("%d bytes came, %v", n, err)
	}
}
