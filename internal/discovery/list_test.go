package discovery

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
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
	await(t, "all are being written", func() bool { return len(f.server.lists) == readers })
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
	await(t, "all have ended", func() bool { return len(f.server.lists) == 0 })
}

func TestListsAreBounded(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	for range maxLists {
		f.server.lists <- struct{}{}
	}
	a := f.want(t, http.StatusServiceUnavailable, http.MethodGet, "/v1/proxies", "")
	if got := a.code(t); got != "overloaded" || a.Header.Get("Retry-After") == "" || a.Close {
		t.Errorf("%s, Retry-After %q, the connection is closed: %t", got, a.Header.Get("Retry-After"), a.Close)
	}
	f.want(t, http.StatusBadRequest, http.MethodGet, "/v1/proxies?x=1", "")
	f.acquire(t, `{}`)
	<-f.server.lists
	for range 2 {
		f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", "")
	}
	if n := len(f.server.lists); n != maxLists-1 {
		t.Errorf("%d lists are being written", n)
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
