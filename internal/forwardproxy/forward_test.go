package forwardproxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestForwardTargets(t *testing.T) {
	cases := []struct {
		line, says, reason string
		want               int
	}{
		{"GET /x", "forward proxy", "origin form", 400},
		{"OPTIONS *", "forward proxy", "asterisk form", 400},
		{"GET https://a.example/", "CONNECT", "https in absolute form", 400},
		{"GET HTTPS://a.example/", "CONNECT", "schemes are case-insensitive", 400},
		{"GET ftp://a.example/", "only http", "another scheme", 400},
		{"GET http://u:pass@a.example/", "credentials", "userinfo", 400},
		{"GET http://u@a.example/", "credentials", "userinfo", 400},
		{"GET http://a.example/#f", "fragment", "fragment", 400},
		{"GET http:///x", "host", "no host", 400},
		{"GET http:x", "host", "opaque", 400},
		{"GET http://a.example:0/", "port", "port 0", 400},
		{"GET http://a.example:70000/", "port", "port too large", 400},
		{"GET http://[fe80::1%25eth0]/", "host", "zone", 400},
		{"GET http://b\u00fccher.example/", "host", "not ASCII", 400},
		{"TRACE http://a.example/", "TRACE", "reflection", 405},
	}
	_, proxy := startProxy(t, Config{})
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			c := dialPeer(t, proxy)
			c.send(tc.line + " HTTP/1.1\r\nHost: x\r\n\r\n")
			resp, body := c.answer("GET")
			if resp.StatusCode != tc.want || !strings.Contains(body, tc.says) || strings.Contains(body, "pass") {
				t.Fatalf("got %s %q, want a text with %q", resp.Status, body, tc.says)
			}
		})
	}
}

func TestTargetsReachTheDestinationByteForByte(t *testing.T) {
	cases := []struct{ method, sent, want, reason string }{
		{"GET", "", "/", "no path"},
		{"GET", "?q=1", "/?q=1", "a query without a path"},
		{"GET", "/a%2Fb|c?x=%7C|", "/a%2Fb|c?x=%7C|", "neither decoded nor encoded anew"},
		{"GET", "//a/../b", "//a/../b", "not cleaned"},
		{"GET", "/a?", "/a?", "an empty query"},
		{"GET", "/a:b@c", "/a:b@c", "looks like userinfo and is none"},
		{"OPTIONS", "", "*", "the server as a whole"},
		{"OPTIONS", "/", "/", "one resource"},
	}
	for _, tc := range cases {
		t.Run(tc.reason, func(t *testing.T) {
			head, _ := sentOn(t, tc.method+" http://{origin}"+tc.sent+" HTTP/1.1\r\nHost: x\r\n\r\n", 0)
			if want := tc.method + " " + tc.want + " HTTP/1.1"; head[0] != want {
				t.Fatalf("got %q, want %q", head[0], want)
			}
		})
	}
}

func TestMaxForwardsIsCounted(t *testing.T) {
	head, _ := sentOn(t, "OPTIONS http://{origin}/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 3\r\n\r\n", 0)
	if got := head[len(head)-1]; got != "Max-Forwards: 2" {
		t.Fatalf("got %q", head)
	}
	_, proxy := startProxy(t, Config{})
	c := dialPeer(t, proxy)
	c.send("OPTIONS http://a.example/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n")
	if resp, _ := c.answer("OPTIONS"); resp.StatusCode != http.StatusOK {
		t.Fatalf("got %s", resp.Status)
	}
}

// exchangeWith opens one request through the proxy and returns both ends; the
// request head has been read at the destination.
func exchangeWith(t *testing.T, cfg Config, method, fieldsAndBody string) (client, origin *peer) {
	t.Helper()
	l := listen(t)
	_, proxy := startProxy(t, cfg)
	client = dialPeer(t, proxy)
	client.send(method + " http://" + l.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\n" + fieldsAndBody)
	origin = accept(t, l)
	origin.head()
	return client, origin
}

func TestBodiesAreStreamed(t *testing.T) {
	client, origin := exchangeWith(t, Config{}, "POST", "Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
	origin.expect("3\r\none\r\n")
	// The answer begins, and flows, while the request still does.
	origin.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	resp, err := http.ReadResponse(client.in, &http.Request{Method: "POST"})
	must(t, err)
	defer resp.Body.Close()
	for _, part := range []string{"alpha", "beta"} {
		fmt.Fprintf(origin, "%x\r\n%s\r\n", len(part), part)
		got := make([]byte, len(part))
		_, err := io.ReadFull(resp.Body, got)
		must(t, err)
		client.send("3\r\ntwo\r\n")
		origin.expect("3\r\ntwo\r\n")
	}
	client.send("0\r\n\r\n")
	origin.expect("0\r\n\r\n")
	origin.send("0\r\n\r\n")
	if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) != 0 {
		t.Fatalf("got %q, %v", rest, err)
	}
}

func TestExpectContinue(t *testing.T) {
	t.Run("wanted", func(t *testing.T) {
		client, origin := exchangeWith(t, Config{}, "PUT", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
		origin.send("HTTP/1.1 100 Continue\r\n\r\n")
		client.expect("HTTP/1.1 100 Continue\r\n\r\n")
		client.send("hi")
		origin.expect("hi")
		origin.send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
		if resp, _ := client.answer("PUT"); resp.StatusCode != http.StatusCreated {
			t.Fatalf("got %s", resp.Status)
		}
	})
	t.Run("not wanted", func(t *testing.T) {
		client, origin := exchangeWith(t, Config{}, "PUT", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
		origin.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		resp, _ := client.answer("PUT")
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Fatalf("got %s, close %t: the body that may follow is not a request", resp.Status, resp.Close)
		}
	})
}

func TestEarlyAnswerEndsTheConnection(t *testing.T) {
	// The rest of the body looks like a request, and must never become one.
	client, origin := exchangeWith(t, Config{}, "POST", "Content-Length: 1000\r\n\r\nbegin")
	origin.expect("begin")
	origin.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
	resp, body := client.answer("POST")
	if resp.StatusCode != http.StatusForbidden || body != "no" || !resp.Close {
		t.Fatalf("got %s %q close=%t", resp.Status, body, resp.Close)
	}
	_, _ = io.WriteString(client, "GET http://a.example:0/ HTTP/1.1\r\nHost: x\r\n\r\n")
	if rest, _ := io.ReadAll(client.in); len(rest) != 0 {
		t.Fatalf("a body was answered as a request: %q", rest)
	}
}

func TestUnreadBodyOfARefusedRequestIsNoRequest(t *testing.T) {
	_, proxy := startProxy(t, Config{Authorize: StaticCredentials("u", "p"), HeaderTimeout: 100 * time.Millisecond})
	c := dialPeer(t, proxy)
	c.send("POST http://a.example/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nGET / HTTP/1.1\r\n")
	resp, _ := c.answer("POST")
	if resp.StatusCode != http.StatusProxyAuthRequired || !resp.Close {
		t.Fatalf("got %s close=%t", resp.Status, resp.Close)
	}
	c.expectClosed()
}

func TestTrailersPass(t *testing.T) {
	client, origin := exchangeWith(t, Config{}, "POST",
		"Trailer: X-Sum, Proxy-Authorization\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 7\r\nProxy-Authorization: secret\r\nX-Sudden: 1\r\n\r\n")
	origin.expect("1\r\na\r\n0\r\nX-Sum: 7\r\n\r\n")
	origin.send("HTTP/1.1 200 OK\r\nTrailer: X-Check\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\nX-Check: 1\r\nX-Late: 2\r\nProxy-Authenticate: Basic\r\n\r\n")
	resp, _ := client.answer("POST")
	if len(resp.Trailer) != 2 || resp.Trailer.Get("X-Check") != "1" || resp.Trailer.Get("X-Late") != "2" {
		t.Fatalf("trailer %v", resp.Trailer)
	}
}

func TestInterimAnswersPass(t *testing.T) {
	client, origin := exchangeWith(t, Config{}, "GET", "\r\n")
	origin.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	client.expect("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	resp, _ := client.answer("GET")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Link") != "" {
		t.Fatalf("got %s %v", resp.Status, resp.Header)
	}
}

func TestAnswersThatCannotBeRelayed(t *testing.T) {
	cases := []struct{ name, response, reason string }{
		{"switch", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", "Upgrade was not asked for"},
		{"proxy authentication", "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", "it would look like the proxy's question"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "which one"},
		{"garbage", "SSH-2.0-x\r\n\r\n", "not HTTP"},
		{"interim for ever", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 17), "no answer comes"},
		{"nothing", "", "closed without an answer"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			client, origin := exchangeWith(t, Config{}, "GET", "Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			origin.send(tc.response)
			must(t, origin.CloseWrite())
			resp, _ := client.answer("GET")
			for resp.StatusCode == http.StatusEarlyHints {
				resp, _ = client.answer("GET")
			}
			if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("Proxy-Authenticate") != "" {
				t.Fatalf("%s: got %s", tc.reason, resp.Status)
			}
		})
	}
}

func TestTruncatedAnswerIsNotMadeToLookComplete(t *testing.T) {
	for _, response := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		client, origin := exchangeWith(t, Config{}, "GET", "\r\n")
		origin.send(response)
		must(t, origin.Close())
		resp, err := http.ReadResponse(client.in, &http.Request{Method: "GET"})
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil || isTimeout(err) {
			t.Errorf("%q: read %q as complete (%v)", response, body, err)
		}
	}
}

func TestHeadKeepsTheLength(t *testing.T) {
	client, origin := exchangeWith(t, Config{}, "HEAD", "\r\n")
	origin.send("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n")
	if resp, body := client.answer("HEAD"); resp.ContentLength != 12345 || body != "" {
		t.Fatalf("got %d %q", resp.ContentLength, body)
	}
}

func TestSilentDestinationIsGivenUp(t *testing.T) {
	cfg := Config{IdleTimeout: 100 * time.Millisecond}
	t.Run("before the answer", func(t *testing.T) {
		client, origin := exchangeWith(t, cfg, "GET", "\r\n")
		resp, _ := client.answer("GET")
		if resp.StatusCode != http.StatusGatewayTimeout {
			t.Fatalf("got %s", resp.Status)
		}
		origin.expectClosed()
	})
	t.Run("in the middle of it", func(t *testing.T) {
		client, origin := exchangeWith(t, cfg, "GET", "\r\n")
		origin.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		resp, err := http.ReadResponse(client.in, &http.Request{Method: "GET"})
		must(t, err)
		defer resp.Body.Close()
		if _, err := io.ReadAll(resp.Body); err == nil || isTimeout(err) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("a client that stalls its body", func(t *testing.T) {
		client, origin := exchangeWith(t, cfg, "POST", "Content-Length: 10\r\n\r\nhalf")
		origin.expect("half")
		if resp, _ := client.answer("POST"); resp.StatusCode != http.StatusGatewayTimeout || !resp.Close {
			t.Fatalf("got %s", resp.Status)
		}
		client.expectClosed()
	})
}

func TestStalledReaderIsGivenUp(t *testing.T) {
	l := listen(t)
	s, proxy := startProxy(t, Config{IdleTimeout: 100 * time.Millisecond})
	client := dialPeer(t, proxy)
	must(t, client.SetReadBuffer(4096))
	client.send("GET http://" + l.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
	origin := accept(t, l)
	origin.head()
	origin.send("HTTP/1.1 200 OK\r\n\r\n")
	// Nobody reads, so this ends only because the proxy gives up.
	block := make([]byte, 1<<20)
	for {
		if _, err := origin.Write(block); err != nil {
			if isTimeout(err) {
				t.Fatal("the proxy still waits for its client")
			}
			break
		}
	}
	eventually(t, "the client's connection is closed", func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.n == 0
	})
}

func TestClientThatLeavesCancelsTheRequest(t *testing.T) {
	client, origin := exchangeWith(t, Config{}, "GET", "\r\n")
	must(t, client.Close())
	origin.expectClosed()
}

func TestMalformedBodyIsTheClientsFault(t *testing.T) {
	client, _ := exchangeWith(t, Config{}, "POST", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n")
	if resp, _ := client.answer("POST"); resp.StatusCode != http.StatusBadRequest || !resp.Close {
		t.Fatalf("got %s, close %t", resp.Status, resp.Close)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	client, origin := exchangeWith(t, Config{}, "GET", "\r\n")
	origin.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	client.answer("GET")
	client.send("POST http://" + origin.LocalAddr().String() + "/2 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi")
	if head := origin.head(); head[0] != "POST /2 HTTP/1.1" {
		t.Fatalf("got %q", head)
	}
	origin.expect("hi")
	// NTLM binds an identity to a connection: such a one is never shared.
	origin.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	client.answer("POST")
	h := http.Header{"Authorization": {"ntlm x"}}
	if !boundToConnection(h) || boundToConnection(http.Header{"Authorization": {"Basic x"}}) {
		t.Error("connection-bound schemes are not recognised")
	}
}

func TestEnvironmentProxiesAreIgnored(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:1")
	}
	sentOn(t, "GET http://{origin}/ HTTP/1.1\r\nHost: x\r\n\r\n", 0)
}
