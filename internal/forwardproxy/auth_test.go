package forwardproxy

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
)

func TestAuthenticationSpellings(t *testing.T) {
	good := basic("user:pass:word")
	token := strings.TrimPrefix(good, "Basic ")
	cases := []struct {
		name, fields, reason string
		ok                   bool
	}{
		{"good", "Proxy-Authorization: " + good, "", true},
		{"field name in capitals", "PROXY-AUTHORIZATION: " + good, "names are case-insensitive", true},
		{"scheme lower", "Proxy-Authorization: basic " + token, "schemes are case-insensitive", true},
		{"scheme upper", "Proxy-Authorization: BASIC " + token, "schemes are case-insensitive", true},
		{"spaces", "Proxy-Authorization:   Basic   " + token + "  ", "1*SP separates", true},
		{"none", "X: y", "no credentials", false},
		{"empty", "Proxy-Authorization:", "no scheme", false},
		{"scheme only", "Proxy-Authorization: Basic", "no token", false},
		{"tab", "Proxy-Authorization: Basic\t" + token, "only spaces separate", false},
		{"other scheme", "Proxy-Authorization: Bearer " + token, "only Basic", false},
		{"token only", "Proxy-Authorization: " + token, "no scheme", false},
		{"bad base64", "Proxy-Authorization: Basic !!!", "not base64", false},
		{"unpadded", "Proxy-Authorization: Basic " + strings.TrimRight(basic("user:p")[6:], "="), "padding is part of it", false},
		{"url alphabet", "Proxy-Authorization: Basic " + base64.URLEncoding.EncodeToString([]byte("user:\xff\xfe\xfd")), "another alphabet", false},
		{"no colon", "Proxy-Authorization: " + basic("userpass"), "not a pair", false},
		{"wrong user", "Proxy-Authorization: " + basic("User:pass:word"), "user names are exact", false},
		{"wrong password", "Proxy-Authorization: " + basic("user:pass"), "", false},
		{"prefix shifted", "Proxy-Authorization: " + basic("user:pass:word "), "no trimming inside", false},
		{"control character", "Proxy-Authorization: " + basic("user:pass:word\x00"), "", false},
		{"twice", "Proxy-Authorization: " + good + "\r\nProxy-Authorization: " + good, "which one would the next hop believe", false},
		{"good then bad", "Proxy-Authorization: " + good + "\r\nproxy-authorization: x", "two fields", false},
		{"list", "Proxy-Authorization: " + good + ", " + good, "not a list", false},
		{"for the origin", "Authorization: " + good, "credentials of another kind", false},
	}
	origin := listen(t)
	go func() { _ = http.Serve(origin, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) }()
	_, proxy := startProxy(t, Config{Authorize: StaticCredentials("user", "pass:word")})
	for _, tc := range cases {
		for _, line := range []string{
			"GET http://" + origin.Addr().String() + "/ HTTP/1.1",
			"CONNECT " + origin.Addr().String() + " HTTP/1.1",
		} {
			method, _, _ := strings.Cut(line, " ")
			t.Run(method+" "+tc.name, func(t *testing.T) {
				c := dialPeer(t, proxy)
				c.send(line + "\r\nHost: x\r\n" + tc.fields + "\r\n\r\n")
				resp, err := http.ReadResponse(c.in, &http.Request{Method: method})
				must(t, err)
				_ = resp.Body.Close()
				if tc.ok && resp.StatusCode == http.StatusOK {
					return
				}
				if tc.ok || resp.StatusCode != http.StatusProxyAuthRequired {
					t.Fatalf("%s: got %s", tc.reason, resp.Status)
				}
				if got := resp.Header["Proxy-Authenticate"]; len(got) != 1 || got[0] != `Basic realm="egress-proxy"` {
					t.Fatalf("challenge: %q", got)
				}
				if !resp.Close {
					t.Fatal("who shows no credentials keeps a connection that others could use")
				}
			})
		}
	}
}

func TestAuthorizeIsToldWhetherThereWereCredentials(t *testing.T) {
	_, proxy := startProxy(t, Config{Authorize: func(u, p string, ok bool) bool { return !ok && u == "" && p == "" }})
	c := dialPeer(t, proxy)
	c.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, _ := c.answer("GET"); resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("anonymous was not let through to the next check: %s", resp.Status)
	}
}

func TestEqualCredentials(t *testing.T) {
	cases := []struct {
		u, p string
		want bool
	}{{"a", "b", true}, {"a", "", false}, {"", "b", false}, {"ab", "", false}, {"", "ab", false}, {"b", "a", false}}
	for _, tc := range cases {
		if got := EqualCredentials(tc.u, tc.p, "a", "b"); got != tc.want {
			t.Errorf("%q %q: got %t", tc.u, tc.p, got)
		}
	}
	if StaticCredentials("", "")("", "", false) {
		t.Error("no credentials matched empty ones")
	}
}

func FuzzParseProxyAuthorization(f *testing.F) {
	for _, seed := range []string{"", "Basic", "Basic ", basic("a:b"), "basic  YTpi", "Basic YTpi\n", "Basic =", "Basic " + strings.Repeat("A", 4096)} {
		f.Add(seed, "")
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		username, password, ok := parseProxyAuthorization([]string{first})
		if !ok && username+password != "" {
			t.Fatal("something of refused credentials got out")
		}
		if ok {
			if strings.Contains(username, ":") {
				t.Fatal("the first colon did not end the user name")
			}
			// What was accepted has one encoding, and it was this one.
			if _, token, _ := strings.Cut(first, " "); strings.Trim(token, " ") != strings.TrimPrefix(basic(username+":"+password), "Basic ") {
				// Base64 decoders skip line breaks, which no header field can hold.
				if !strings.ContainsAny(first, "\r\n") {
					t.Fatalf("%q was read as %q %q", first, username, password)
				}
			}
		}
		if _, _, ok := parseProxyAuthorization([]string{first, second}); ok {
			t.Fatal("two fields were accepted")
		}
		if _, _, ok := parseProxyAuthorization(nil); ok {
			t.Fatal("no field was accepted")
		}
	})
}
