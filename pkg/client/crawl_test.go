package client

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

var schemes = []string{"http://", "https://"}

func TestRequestsGoThroughOneLeasePerHost(t *testing.T) {
	for _, scheme := range schemes {
		w := newWeb(t)
		w.proxy("a", "127.0.0.2")
		w.proxy("b", "127.0.0.3")
		tr := w.transport(TransportOptions{IdleTimeout: time.Minute})
		for range 3 {
			if status, body := w.get(tr, scheme+"shop.example/"); status != 200 || body != "hello" {
				t.Fatalf("%d %q", status, body)
			}
		}
		w.get(tr, scheme+"other.example/")
		exits := w.seen()
		if exits[0] != exits[1] || exits[1] != exits[2] || exits[3] == exits[0] {
			t.Errorf("exits are %v", exits)
		}
		if n := w.count("POST", leasesPath); n != 2 {
			t.Errorf("%d leases for two hosts", n)
		}
		w.wantLive(2)
		// Both are given back when nobody has asked for long, with one report each.
		w.steps(10*time.Second, "release", func() bool { return w.ledger.Live() == 0 })
		w.mu.Lock()
		reports := 0
		for _, r := range w.rig.requests {
			if strings.HasSuffix(r, "/report") {
				reports++
			}
		}
		w.mu.Unlock()
		if reports != 2 {
			t.Errorf("%d reports", reports)
		}
	}
}

func TestABannedExitIsReportedAndLeft(t *testing.T) {
	for _, scheme := range schemes {
		for status, refusal := range map[int]string{http.StatusForbidden: "banned", http.StatusTooManyRequests: "limited"} {
			w := newWeb(t)
			// Without a bound on the leases, only the report keeps the server from giving the same proxy again.
			w.proxy("a", "127.0.0.2", unlimited)
			w.proxy("b", "127.0.0.3", unlimited, func(p *fleet.Proxy) { p.Attributes = map[string]string{"which": "b"} })
			for range 2 { // so that the server would rather give a
				w.acquire(w.c, Request{Selector: map[string]string{"which": "b"}})
			}
			w.origin(func(rw http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.RemoteAddr, "127.0.0.2:") {
					rw.WriteHeader(status)
				}
			})
			// However slow the report, the answer comes after it.
			w.on(func(rw http.ResponseWriter, r *http.Request, pass http.Handler) bool {
				if !strings.HasSuffix(r.URL.Path, "/report") {
					return false
				}
				<-time.After(20 * time.Millisecond)
				pass.ServeHTTP(rw, r)
				return true
			})
			tr := w.transport(TransportOptions{})
			first, _ := w.get(tr, scheme+"shop.example/")
			second, _ := w.get(tr, scheme+"shop.example/")
			if exits := w.seen(); first != status || second != 200 || exits[0] != "127.0.0.2" || exits[1] != "127.0.0.3" {
				t.Fatalf("%s %s: %d, %d through %v", scheme, refusal, first, second, exits)
			}
		}
	}
}

func TestADeadProxyIsReplacedOnce(t *testing.T) {
	for _, scheme := range schemes {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := newWeb(t)
			w.at("a", nowhere(t), unlimited)
			w.proxy("b", "127.0.0.3", unlimited)
			var got atomic.Pointer[string]
			w.origin(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got.Store(new(string(body)))
			})
			tr := w.transport(TransportOptions{})
			resp, err := w.send(tr, method, scheme+"shop.example/", strings.NewReader("payload"))
			must(t, err)
			drain(resp.Body)
			if *got.Load() != "payload" || resp.StatusCode != 200 {
				t.Errorf("%d, body %q", resp.StatusCode, *got.Load())
			}
			w.wantLive(1) // the dead one's lease is released
		}
	}
}

func TestAProxyThatIsOfNoUse(t *testing.T) {
	wrong := func(p *fleet.Proxy) {
		c := *p.Credentials
		c.Username = "somebody"
		p.Credentials = &c
	}
	for _, scheme := range schemes {
		w := newWeb(t)
		w.proxy("a", "127.0.0.2", wrong)
		tr := w.transport(TransportOptions{})
		_, err := w.send(tr, http.MethodGet, scheme+"shop.example/", nil)
		var answered *ProxyError
		if !errorsAs(err, &answered) || answered.Status != http.StatusProxyAuthRequired {
			t.Fatalf("%s: error is %v", scheme, err)
		}
		w.proxy("b", "127.0.0.3")
		if status, _ := w.get(tr, scheme+"shop.example/"); status != 200 {
			t.Errorf("status %d", status)
		}
		// A body that cannot be rewound is not sent twice.
		w2 := newWeb(t)
		w2.at("a", nowhere(t))
		w2.proxy("b", "127.0.0.3")
		_, err = w2.send(w2.transport(TransportOptions{}), http.MethodPost, scheme+"shop.example/", io.MultiReader(strings.NewReader("x")))
		if err == nil || len(w2.seen()) != 0 || strings.Contains(err.Error(), testPassword) {
			t.Errorf("%s: error is %v", scheme, err)
		}
	}
}

func TestATargetThatCannotBeReachedIsNotTheProxysFault(t *testing.T) {
	w := newWeb(t)
	w.proxy("a", "127.0.0.2")
	w.proxy("b", "127.0.0.3")
	tr := w.transport(TransportOptions{})
	_, err := w.send(tr, http.MethodGet, "https://unreachable.example/", nil)
	var answered *ProxyError
	if !errorsAs(err, &answered) || answered.Status != http.StatusGatewayTimeout || !strings.Contains(answered.Reason, "timeout") {
		t.Fatalf("error is %v", err)
	}
	if status, _ := w.get(tr, "http://unreachable.example/"); status != http.StatusGatewayTimeout {
		t.Errorf("status %d", status)
	}
	if n := w.count("POST", leasesPath); n != 1 {
		t.Errorf("%d leases", n)
	}
}
