package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func errorsAs[T error](err error, target *T) bool { return errors.As(err, target) }

func TestTransportOptionsAreChecked(t *testing.T) {
	c := newClient(t, "http://api.test")
	for want, o := range map[string]TransportOptions{
		"Client":              {},
		"Target":              {Client: c, Lease: Request{Target: "a"}},
		"RequestsPerLease":    {Client: c, RequestsPerLease: -1},
		"ConcurrencyPerLease": {Client: c, ConcurrencyPerLease: -1},
		"IdleTimeout":         {Client: c, IdleTimeout: 2 * time.Hour},
		"MaxLeases":           {Client: c, MaxLeases: -1},
		"Prefer":              {Client: c, Lease: Request{Prefer: "x"}},
	} {
		if _, err := NewTransport(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
}

// body tells whether it was closed.
type closeTeller struct {
	io.Reader
	closed atomic.Bool
}

func (c *closeTeller) Close() error { c.closed.Store(true); return nil }

func TestARequestThatCannotBeSentHasItsBodyClosed(t *testing.T) {
	w := newWeb(t)
	tr := w.transport(TransportOptions{})
	for _, url := range []string{"ftp://shop.example/", "http://bad_host.example/", "http://shop.example/"} {
		body := &closeTeller{Reader: strings.NewReader("x")}
		_, err := w.send(tr, http.MethodPost, url, body)
		if err == nil || !body.closed.Load() {
			t.Errorf("%s: error is %v, body closed: %t", url, err, body.closed.Load())
		}
	}
}

func TestALeaseForEveryRequest(t *testing.T) {
	w := newWeb(t)
	for i := range 3 {
		w.proxy(fmt.Sprintf("p%d", i), fmt.Sprintf("127.0.0.%d", i+2), unlimited)
	}
	tr := w.transport(TransportOptions{RequestsPerLease: 1, Lease: Request{Prefer: PreferRotation}})
	for range 6 {
		w.get(tr, "http://shop.example/")
	}
	if n := w.count("POST", leasesPath); n != 6 {
		t.Errorf("%d leases", n)
	}
	distinct := map[string]bool{}
	for _, exit := range w.seen() {
		distinct[exit] = true
	}
	if len(distinct) != 3 {
		t.Errorf("exits are %v", distinct)
	}
	w.wantLive(0)
}

// A response whose body is open holds its lease; closing gives it back.
func TestALeaseLastsAsLongAsItsBodies(t *testing.T) {
	for i, scheme := range append(schemes, schemes...) {
		w := newWeb(t)
		w.proxy("a", "127.0.0.2")
		finish := make(chan struct{})
		w.origin(func(rw http.ResponseWriter, _ *http.Request) {
			if i >= len(schemes) {
				rw.WriteHeader(http.StatusForbidden) // a ban is reported at once, but what there is can be read
			}
			_, _ = io.WriteString(rw, "begin")
			_ = http.NewResponseController(rw).Flush()
			<-finish
			_, _ = io.WriteString(rw, " end")
		})
		tr := w.transport(TransportOptions{RequestsPerLease: 1})
		resp, err := w.send(tr, http.MethodGet, scheme+"shop.example/", nil)
		must(t, err)
		tr.CloseIdleConnections()
		if w.ledger.Live() != 1 {
			t.Fatal("released under an open body")
		}
		close(finish)
		text, err := io.ReadAll(resp.Body)
		if err != nil || string(text) != "begin end" {
			t.Errorf("%q, %v", text, err)
		}
		must(t, resp.Body.Close())
		w.wantLive(0)
	}
}

func TestManyRequestsShareFewLeases(t *testing.T) {
	w := newWeb(t, realTime)
	const most = 10
	for i := range 5 {
		w.proxy(fmt.Sprintf("p%d", i), fmt.Sprintf("127.0.0.%d", i+2), unlimited)
	}
	var live atomic.Int32
	w.origin(func(http.ResponseWriter, *http.Request) { live.Store(max(live.Load(), int32(w.ledger.Live()))) })
	tr := w.transport(TransportOptions{RequestsPerLease: 3, ConcurrencyPerLease: 2, MaxLeases: most})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			resp, err := w.send(tr, http.MethodGet, fmt.Sprintf("%shost%d.example/", schemes[i%2], i%7), nil)
			if err != nil {
				t.Error(err)
				return
			}
			drain(resp.Body)
		})
	}
	wg.Wait()
	if n := live.Load(); n > most || n == 0 {
		t.Errorf("%d leases at one time, the bound is %d", n, most)
	}
	must(t, tr.Close(t.Context()))
	w.wantLive(0)
}

func TestIdleLeasesGiveWay(t *testing.T) {
	w := newWeb(t)
	w.proxy("a", "127.0.0.2")
	tr := w.transport(TransportOptions{MaxLeases: 1})
	w.get(tr, "http://one.example/")
	w.get(tr, "http://two.example/")
	w.get(tr, "http://one.example/")
	if n := w.count("POST", leasesPath); n != 3 {
		t.Errorf("%d leases", n)
	}
}

func TestClassifyIsTheCallersChoice(t *testing.T) {
	w := newWeb(t)
	w.proxy("a", "127.0.0.2", unlimited)
	tr := w.transport(TransportOptions{Classify: func(resp *http.Response, err error) Result {
		if err == nil && resp.Header.Get("X-Captcha") != "" {
			return ResultBanned
		}
		return ResultNone
	}})
	w.origin(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusForbidden) })
	w.get(tr, "http://shop.example/")
	w.origin(func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("X-Captcha", "1") })
	w.get(tr, "http://shop.example/")
	_, err := w.send(tr, http.MethodGet, "http://shop.example/", nil)
	var none *NoMatchError
	if !errorsAs(err, &none) || none.InCooldown != 1 {
		t.Errorf("error is %v", err)
	}
}

func TestDefaultClassify(t *testing.T) {
	for status, want := range map[int]Result{200: ResultOK, 401: ResultOK, 404: ResultOK, 500: ResultOK, 429: ResultRateLimited, 403: ResultBanned, 407: ResultNone} {
		if got := DefaultClassify(&http.Response{StatusCode: status, Header: http.Header{}}, nil); got != want {
			t.Errorf("%d is %q, want %q", status, got, want)
		}
	}
	own := &http.Response{StatusCode: 403, Header: http.Header{"Proxy-Status": {"egress-proxy; error=destination_ip_prohibited"}}}
	if got := DefaultClassify(own, nil); got != ResultNone {
		t.Errorf("the proxy's own refusal is %q", got)
	}
	if got := DefaultClassify(nil, io.EOF); got != ResultNone {
		t.Errorf("an error is %q", got)
	}
}
