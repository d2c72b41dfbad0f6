package forwardproxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// sentOn sends one raw request through the proxy and returns what the
// destination got, head and body, after answering it with 204.
func sentOn(t *testing.T, raw string, bodyBytes int) (head []string, body string) {
	t.Helper()
	l := listen(t)
	_, proxy := startProxy(t, Config{})
	client := dialPeer(t, proxy)
	client.send(strings.ReplaceAll(raw, "{origin}", l.Addr().String()))
	origin := accept(t, l)
	head = origin.head()
	got := make([]byte, bodyBytes)
	for n := 0; n < bodyBytes; {
		m, err := origin.in.Read(got[n:])
		must(t, err)
		n += m
	}
	origin.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	if resp, _ := client.answer("GET"); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("client got %s", resp.Status)
	}
	return head, string(got)
}

func TestRequestFieldsThatReachTheDestination(t *testing.T) {
	cases := []struct {
		name, fields string
		want         []string // besides request line and Host
		reason       string
	}{
		{"nothing is added", "", nil, "no User-Agent, Via, X-Forwarded-For or Accept-Encoding of ours"},
		{"end-to-end fields", "User-Agent: crawler\r\nAccept-Encoding: br\r\nAuthorization: Basic x\r\nVia: 1.1 mine\r\n",
			[]string{"User-Agent: crawler", "Accept-Encoding: br", "Authorization: Basic x", "Via: 1.1 mine"}, "what the client says is its own affair"},
		{"connection fields", "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nUpgrade: websocket\r\nHTTP2-Settings: x\r\n",
			nil, "they are about one connection"},
		{"proxy credentials", "Proxy-Authorization: " + basic("u:p") + "\r\nProxy-Authenticate: x\r\nProxy-Authentication-Info: x\r\n", nil, "they are for the proxy"},
		{"named fields", "Connection: X-One , x-two,,Upgrade\r\nConnection: X-Three\r\nX-One: 1\r\nX-Two: 2\r\nX-Three: 3\r\nX-Four: 4\r\n",
			[]string{"X-Four: 4"}, "what Connection names ends here, in every spelling"},
		{"te trailers", "TE: gzip;q=0.5, Trailers\r\nConnection: TE\r\n", []string{"Te: trailers", "Connection: TE"}, "the only option that may go on"},
		{"te other", "TE: gzip\r\nConnection: TE\r\n", nil, "coding is per hop"},
		{"empty user agent", "User-Agent:\r\n", nil, "an empty one is not replaced"},
		{"repeated field", "Cookie: a=1\r\nX-A: 1\r\nX-A: 2\r\n", []string{"Cookie: a=1", "X-A: 1", "X-A: 2"}, "repetition is kept"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			head, _ := sentOn(t, "GET http://{origin}/x HTTP/1.1\r\nHost: ignored.example\r\n"+tc.fields+"\r\n", 0)
			if head[0] != "GET /x HTTP/1.1" || !strings.HasPrefix(head[1], "Host: 127.0.0.1:") {
				t.Fatalf("begins with %q", head[:2])
			}
			got, want := slices.Sorted(slices.Values(head[2:])), slices.Sorted(slices.Values(tc.want))
			if !slices.Equal(got, want) {
				t.Fatalf("%s:\ngot  %q\nwant %q", tc.reason, got, want)
			}
		})
	}
}

func TestRequestFramingIsMadeAnew(t *testing.T) {
	chunked := "5\r\nhello\r\n0\r\n\r\n"
	cases := []struct {
		name, raw, framing, body, reason string
	}{
		{"length", "Content-Length: 5\r\n\r\nhello", "Content-Length: 5", "hello", "as it came"},
		{"same length twice", "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "Content-Length: 5", "hello", "one is sent on"},
		{"chunked", "Transfer-Encoding: chunked\r\n\r\n" + chunked, "Transfer-Encoding: chunked", chunked, "length is unknown"},
		{"both", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, "Transfer-Encoding: chunked", chunked, "chunked wins and the length is dropped"},
		{"length named in Connection", "Connection: Content-Length\r\nContent-Length: 5\r\n\r\nhello", "Content-Length: 5", "hello", "framing cannot be stripped"},
		{"coding named in Connection", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked, "Transfer-Encoding: chunked", chunked, "framing cannot be stripped"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			head, body := sentOn(t, "POST http://{origin}/ HTTP/1.1\r\nHost: x\r\n"+tc.raw, len(tc.body))
			var framing []string
			for _, line := range head {
				if strings.HasPrefix(line, "Content-Length") || strings.HasPrefix(line, "Transfer-Encoding") {
					framing = append(framing, line)
				}
			}
			if len(framing) != 1 || framing[0] != tc.framing || body != tc.body {
				t.Fatalf("%s: got %q, body %q", tc.reason, framing, body)
			}
		})
	}
}

func TestAmbiguousRequestsAreRefused(t *testing.T) {
	cases := []struct{ name, fields, reason string }{
		{"two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "which one"},
		{"list of lengths", "Content-Length: 5, 6\r\n\r\nhello!", "which one"},
		{"signed length", "Content-Length: +5\r\n\r\nhello", "not a number"},
		{"coding unknown", "Transfer-Encoding: gzip\r\n\r\n", "where does the body end"},
		{"coding twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "where does the body end"},
		{"coding disguised", "Transfer-Encoding: xchunked\r\n\r\n", "where does the body end"},
		{"space before colon", "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "some hops see a field, some do not"},
		{"control character", "X-A: a\x00b\r\n\r\n", "some hops end a field there"},
		{"two hosts", "Host: y\r\n\r\n", "which one"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l := listen(t)
			_, proxy := startProxy(t, Config{})
			c := dialPeer(t, proxy)
			c.send("POST http://" + l.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\n" + tc.fields)
			resp, _ := c.answer("POST")
			if resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotImplemented || !resp.Close {
				t.Fatalf("%s: got %s, close %t", tc.reason, resp.Status, resp.Close)
			}
		})
	}
}

func TestResponseFieldsThatReachTheClient(t *testing.T) {
	cases := []struct {
		name, response string
		want           http.Header
		body, reason   string
	}{
		{"nothing is added", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
			http.Header{"Content-Length": {"6"}}, "<html>", "no Date and no guessed Content-Type"},
		{"connection fields", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: x\r\nUpgrade: h2c\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\nX-End: 1\r\n\r\n",
			http.Header{"Content-Length": {"0"}, "X-End": {"1"}}, "", "they end here"},
		{"encoded", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc",
			http.Header{"Content-Length": {"3"}, "Content-Encoding": {"gzip"}}, "abc", "never decoded"},
		{"redirect", "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://b.example/\r\n\r\n",
			http.Header{"Content-Length": {"0"}, "Location": {"http://b.example/"}}, "", "never followed"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			l := listen(t)
			_, proxy := startProxy(t, Config{})
			client := dialPeer(t, proxy)
			client.send("GET http://" + l.Addr().String() + "/ HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
			origin := accept(t, l)
			origin.head()
			origin.send(tc.response)
			resp, body := client.answer("GET")
			if len(resp.Header) != len(tc.want) || body != tc.body {
				t.Fatalf("%s: got %v %q", tc.reason, resp.Header, body)
			}
			for name, values := range tc.want {
				if !slices.Equal(resp.Header[name], values) {
					t.Errorf("%s: %s is %q, want %q", tc.reason, name, resp.Header[name], values)
				}
			}
		})
	}
}
