package discovery

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const bearer = "Authorization: Bearer " + testToken + "\r\n"

// post is an authenticated request for a lease with this body and these further header lines.
func post(body string, headers ...string) string {
	return fmt.Sprintf("POST /v1/leases HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %d\r\n\r\n%s", bearer, lines(headers), len(body), body)
}

func chunked(body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "POST /v1/leases HTTP/1.1\r\nHost: x\r\n%s%sTransfer-Encoding: chunked\r\n\r\n", bearer, lines(headers))
	for len(body) > 0 {
		n := min(1000, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

func lines(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return strings.Join(headers, "\r\n") + "\r\n"
}

func request(method, path string, headers ...string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + bearer + lines(headers) + "\r\n"
}

func unauthenticated(headers ...string) string {
	return "GET /v1/proxies HTTP/1.1\r\nHost: x\r\n" + lines(headers) + "\r\n"
}

// sized is a valid body of exactly n bytes.
func sized(n int) string { return `{"ttlSeconds":60}` + strings.Repeat(" ", n-17) }

type exchangeCase struct {
	reason string
	send   string
	status int
	code   string
}

func ttlCases() []exchangeCase {
	const bad, out = "invalid_request", "ttl_out_of_range"
	var cases []exchangeCase
	for _, c := range []struct {
		value  string
		status int
		code   string
	}{
		{"0", 400, out}, {"-1", 400, out}, {"1", 201, ""}, {"3600", 201, ""}, {"3601", 400, out},
		{"9223372037", 400, out}, {"18446744073", 400, out}, {"18446744074", 400, out},
		{strconv.Itoa(1 << 62), 400, out}, {strconv.Itoa(math.MaxInt64), 400, out}, {"9223372036854775808", 400, out},
		{"-9223372036854775809", 400, out}, {"1e400", 400, bad}, {"60.0", 400, bad}, {"6e1", 400, bad}, {`"60"`, 400, bad},
		{"null", 201, ""}, {"true", 400, bad}, {"[60]", 400, bad}, {"{}", 400, bad}, {"060", 400, bad}, {"+60", 400, bad},
		{"0x3c", 400, bad}, {"-0", 400, out},
	} {
		cases = append(cases, exchangeCase{"ttl " + c.value, post(`{"ttlSeconds":` + c.value + `}`), c.status, c.code})
	}
	return cases
}

func bodyCases() []exchangeCase {
	const bad, large, encoding = "invalid_request", "too_large", "unsupported_encoding"
	return []exchangeCase{
		{"no member at all", post(`{}`), 201, ""},
		{"space around", post("\r\n\t {} \n"), 201, ""},
		{"empty body", post(``), 400, bad},
		{"null body", post(`null`), 400, bad},
		{"array", post(`[]`), 400, bad},
		{"string", post(`"x"`), 400, bad},
		{"number", post(`1`), 400, bad},
		{"two values", post(`{} {}`), 400, bad},
		{"trailing comma", post(`{"ttlSeconds":60,}`), 400, bad},
		{"comment", post(`{} // x`), 400, bad},
		{"cut off", post(`{"ttlSeconds":60`), 400, bad},
		{"byte order mark", post("\ufeff{}"), 400, bad},
		{"unknown member", post(`{"ttl":60}`), 400, bad},
		{"duplicate member", post(`{"ttlSeconds":60,"ttlSeconds":60}`), 400, bad},
		{"duplicate by escape", post(`{"ttlSeconds":60,"ttl\u0053econds":60}`), 400, bad},
		{"duplicate in the selector", post(`{"selector":{"country":"de","country":"de"}}`), 400, bad},
		{"other casing", post(`{"TTLSeconds":60}`), 400, bad},
		{"folded casing", post(`{"ttlſeconds":60}`), 400, bad},
		{"lone surrogate", post(`{"target":"\ud800"}`), 400, bad},
		{"invalid UTF-8", post("{\"target\":\"\xff\"}"), 400, bad},
		{"NUL", post("{\"target\":\"a\x00b\"}"), 400, bad},
		{"10,001 nested arrays", post(`{"selector":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`), 400, bad},
		{"10,001 nested arrays alone", post(strings.Repeat("[", 10001)), 400, bad},
		{"null members", post(`{"selector":null,"namespace":null,"ttlSeconds":null,"target":null,"prefer":null,"waitSeconds":null}`), 201, ""},
		{"null in the selector", post(`{"selector":{"country":null}}`), 201, ""},
		{"65,535 bytes", post(sized(65535)), 201, ""},
		{"65,536 bytes", post(sized(65536)), 201, ""},
		{"65,537 bytes", post(sized(65537)), 413, large},
		{"valid JSON, then 70 KB of spaces", post(sized(70_000)), 413, large},
		{"chunked", chunked(`{"ttlSeconds":60}`), 201, ""},
		{"chunked, 65,536 bytes", chunked(sized(65536)), 201, ""},
		{"chunked, 65,537 bytes", chunked(sized(65537)), 413, large},
		{"chunked GET, 65,537 bytes", strings.Replace(chunked(sized(65537)), "POST /v1/leases", "GET /v1/proxies", 1), 413, large},
		{"large DELETE", strings.Replace(post(sized(65537)), "POST /v1/leases", "DELETE /v1/leases/x", 1), 413, large},
		{"Content-Length too small", strings.Replace(post(`{"ttlSeconds":60}`), "Content-Length: 17", "Content-Length: 5", 1), 400, bad},
		{"Content-Length too large", strings.Replace(post(`{"ttlSeconds":60}`), "Content-Length: 17", "Content-Length: 99", 1), 400, bad},
		{"gzip", post("\x1f\x8b\x08\x00", "Content-Encoding: gzip"), 415, encoding},
		{"gzip among several", post("{}", "Content-Encoding: identity", "Content-Encoding: gzip"), 415, encoding},
		{"identity", post("{}", "Content-Encoding: Identity"), 201, ""},
		{"form content type", post("{}", "Content-Type: application/x-www-form-urlencoded"), 201, ""},
		{"waiting", post(`{"waitSeconds":1}`), 201, ""},
		{"waiting as long as possible", post(`{"waitSeconds":30}`), 201, ""},
		{"waiting too long", post(`{"waitSeconds":31}`), 400, bad},
		{"waiting for less than nothing", post(`{"waitSeconds":-1}`), 400, bad},
		{"waiting for ever", post(`{"waitSeconds":9223372036854775808}`), 400, bad},
		{"waiting for a fraction", post(`{"waitSeconds":1.5}`), 400, bad},
		{"waiting for what nothing matches", post(`{"waitSeconds":30,"selector":{"country":"nowhere"}}`), 409, "no_match"},
		{"not waiting", post(`{"waitSeconds":0}`), 201, ""},
		{"waiting for a string", post(`{"waitSeconds":"1"}`), 400, bad},
		{"idempotency key", post(`{}`, "Idempotency-Key: k"), 201, ""},
		{"idempotency key again", post(`{}`, "Idempotency-Key: k"), 201, ""},
		{"idempotency key with another body", post(`{"ttlSeconds":5}`, "Idempotency-Key: k"), 422, "idempotency_mismatch"},
		{"two idempotency keys", post(`{}`, "Idempotency-Key: k", "Idempotency-Key: k"), 400, bad},
		{"longest idempotency key", post(`{}`, "Idempotency-Key: "+strings.Repeat("k", 255)), 201, ""},
		{"idempotency key too long", post(`{}`, "Idempotency-Key: "+strings.Repeat("k", 256)), 400, bad},
		{"idempotency key with a space", post(`{}`, "Idempotency-Key: k k"), 400, bad},
		{"idempotency key beyond ASCII", post(`{}`, "Idempotency-Key: é"), 400, bad},
		{"empty idempotency key", post(`{}`, "Idempotency-Key:"), 400, bad},
		{"preference", post(`{"prefer":"rotation"}`), 201, ""},
		{"unknown preference", post(`{"prefer":"Latency"}`), 400, bad},
		{"empty preference", post(`{"prefer":""}`), 400, bad},
	}
}

func selectorCases() []exchangeCase {
	const bad, none = "invalid_request", "no_match"
	many := make([]string, 0, 33)
	for i := range 33 {
		many = append(many, fmt.Sprintf(`"k%d":"v"`, i))
	}
	return []exchangeCase{
		{"empty selector", post(`{"selector":{}}`), 201, ""},
		{"unknown attribute", post(`{"selector":{"colour":"blue"}}`), 409, none},
		{"empty value", post(`{"selector":{"country":""}}`), 409, none},
		{"empty key", post(`{"selector":{"":"x"}}`), 400, bad},
		{"odd key", post(`{"selector":{"a b":"x"}}`), 400, bad},
		{"odd value", post(`{"selector":{"country":"d e"}}`), 400, bad},
		{"long value", post(`{"selector":{"country":"` + strings.Repeat("x", 64) + `"}}`), 400, bad},
		{"number as value", post(`{"selector":{"country":1}}`), 400, bad},
		{"too many keys", post(`{"selector":{` + strings.Join(many, ",") + `}}`), 400, bad},
		{"namespace", post(`{"namespace":"ns"}`), 201, ""},
		{"another namespace", post(`{"namespace":"other"}`), 409, none},
		{"empty namespace", post(`{"namespace":""}`), 400, bad},
		{"odd namespace", post(`{"namespace":"A_b"}`), 400, bad},
		{"query on a POST", strings.Replace(post(`{}`), "/v1/leases", "/v1/leases?target=x.example", 1), 400, bad},

		{"list", request("GET", "/v1/proxies"), 200, ""},
		{"list by attribute", request("GET", "/v1/proxies?attr.country=de&healthy=true&namespace=ns&limit=1"), 200, ""},
		{"attribute with prefix", request("GET", "/v1/proxies?attr.example.com/tier=gold"), 200, ""},
		{"empty attribute key", request("GET", "/v1/proxies?attr.=de"), 400, bad},
		{"odd attribute key", request("GET", "/v1/proxies?attr.%00=de"), 400, bad},
		{"attribute twice", request("GET", "/v1/proxies?attr.country=de&attr.country=fr"), 400, bad},
		{"unknown parameter", request("GET", "/v1/proxies?country=de"), 400, bad},
		{"healthy in capitals", request("GET", "/v1/proxies?healthy=TRUE"), 400, bad},
		{"empty healthy", request("GET", "/v1/proxies?healthy="), 400, bad},
		{"limit 0", request("GET", "/v1/proxies?limit=0"), 400, bad},
		{"limit 1000", request("GET", "/v1/proxies?limit=1000"), 200, ""},
		{"limit 1001", request("GET", "/v1/proxies?limit=1001"), 400, bad},
		{"limit out of range", request("GET", "/v1/proxies?limit=18446744073709551617"), 400, bad},
		{"foreign continue token", request("GET", "/v1/proxies?continue=%21%21"), 400, bad},
		{"empty continue token", request("GET", "/v1/proxies?continue="), 400, bad},
		{"malformed query", request("GET", "/v1/proxies?attr.country=%zz"), 400, bad},
		{"semicolon", request("GET", "/v1/proxies?limit=1;healthy=true"), 400, bad},
		{"64 KB of query", request("GET", "/v1/proxies?attr.country="+strings.Repeat("x", 64<<10)), 431, "-"},
		{"20 KB of query", request("GET", "/v1/proxies?attr.country="+strings.Repeat("x", 20<<10)), 400, bad},
	}
}

func targetCases() []exchangeCase {
	const bad = "invalid_request"
	var cases []exchangeCase
	for target, ok := range map[string]bool{
		"shop.example": true, "localhost": true, "a-b.example": true, "xn--bcher-kva.example": true, "192.0.2.1": true,
		"2001:db8::1": true, "r3---sn-4g5e6nez.example": true, "1.example": true, strings.Repeat("a", 63) + ".example": true,
		"": false, "Shop.example": false, "https://shop.example": false, "shop.example:443": false, "shop.example.": false,
		".shop.example": false, "shop..example": false, "bücher.example": false, "xn--.example": false, "xn--a-.example": false,
		"xn--zzzzzzzzzz99.example": false, "shop.example/": false, "-a.example": false, "a-.example": false, "a b": false,
		"user@shop.example": false, "*.example": false, "1.2.3": false, "192.0.2.01": false, "0x7f.0x1": false, "010.0.0.1": false,
		"[2001:db8::1]": false, "2001:DB8::1": false, "2001:db8:0::1": false, "fe80::1%25eth0": false, "fe80::1%eth0": false,
		"::ffff:192.0.2.1": false, strings.Repeat("a", 64) + ".example": false, strings.Repeat("a.", 127) + "a": false,
		strings.Repeat("a", 60_000): false,
	} {
		c := exchangeCase{reason: fmt.Sprintf("target %.40q", target), send: post(`{"target":"` + target + `"}`), status: 400, code: bad}
		if ok {
			c.status, c.code = 201, ""
		}
		cases = append(cases, c)
	}
	return append(cases, exchangeCase{"target of 1 MB", post(`{"target":"` + strings.Repeat("a", 1<<20) + `"}`), 413, "too_large"})
}

func routeCases() []exchangeCase {
	const lost, method = "not_found", "method_not_allowed"
	return []exchangeCase{
		{"health", "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200, ""},
		{"health by HEAD", "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200, ""},
		{"health by POST", "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 405, method},
		{"large body for health", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", 413, "too_large"},
		{"double slash is not redirected", strings.Replace(post(`{}`), "/v1/leases", "//v1/leases", 1), 404, lost},
		{"trailing slash is not redirected", strings.Replace(post(`{}`), "/v1/leases", "/v1/leases/", 1), 404, lost},
		{"dot segments are not redirected", strings.Replace(post(`{}`), "/v1/leases", "/v1/../v1/leases", 1), 404, lost},
		{"encoded dot segments", request("GET", "/v1/%2e%2e/healthz"), 404, lost},
		{"encoded slash in an ID", request("GET", "/v1/leases/a%2Fb"), 404, "unknown_lease"},
		{"encoded slashes in an ID", request("GET", "/v1/leases/a%2F%2Fb"), 404, lost},
		{"root", request("GET", "/"), 404, lost},
		{"unknown path", request("GET", "/v1/nothing"), 404, lost},
		{"path in capitals", request("GET", "/V1/proxies"), 404, lost},
		{"GET of leases", request("GET", "/v1/leases"), 405, method},
		{"HEAD of leases", request("HEAD", "/v1/leases"), 405, "-"},
		{"HEAD of proxies", request("HEAD", "/v1/proxies"), 200, ""},
		{"OPTIONS", request("OPTIONS", "/v1/leases"), 405, method},
		{"OPTIONS of everything", request("OPTIONS", "*"), 404, lost},
		{"PUT", request("PUT", "/v1/leases/x"), 405, method},
		{"odd method", request("LEASE", "/v1/leases"), 405, method},
		{"lower-case method", request("post", "/v1/leases"), 405, method},
		{"absolute form", request("GET", "http://x/v1/proxies"), 200, ""},
		{"absolute form without a path", request("GET", "http://x"), 404, lost},
		{"CONNECT", request("CONNECT", "x:443"), 404, "-"},
		{"no Host", strings.Replace(request("GET", "/v1/proxies"), "Host: x\r\n", "", 1), 400, "-"},
		{"not HTTP", "hello\r\n\r\n", 400, "-"},

		{"unknown lease", request("GET", "/v1/leases/x"), 404, "unknown_lease"},
		{"releasing an unknown lease", request("DELETE", "/v1/leases/x"), 204, ""},
		{"renewing an unknown lease", strings.Replace(post(`{}`), "/v1/leases", "/v1/leases/x/renew", 1), 404, "unknown_lease"},
		{"renewing out of bounds", strings.Replace(post(`{"ttlSeconds":3601}`), "/v1/leases", "/v1/leases/x/renew", 1), 400, "ttl_out_of_range"},
		{"renewing with an unknown member", strings.Replace(post(`{"ttl":1}`), "/v1/leases", "/v1/leases/x/renew", 1), 400, "invalid_request"},
		{"reporting on an unknown lease", strings.Replace(post(`{"result":"ok"}`), "/v1/leases", "/v1/leases/x/report", 1), 404, "unknown_lease"},
		{"reporting nothing", strings.Replace(post(`{}`), "/v1/leases", "/v1/leases/x/report", 1), 400, "invalid_result"},
		{"reporting something else", strings.Replace(post(`{"result":"OK"}`), "/v1/leases", "/v1/leases/x/report", 1), 400, "invalid_result"},
		{"reporting a number", strings.Replace(post(`{"result":1}`), "/v1/leases", "/v1/leases/x/report", 1), 400, "invalid_request"},
		{"reporting an odd target", strings.Replace(post(`{"result":"ok","target":"X"}`), "/v1/leases", "/v1/leases/x/report", 1), 400, "invalid_request"},
		{"unknown proxy", request("GET", "/v1/proxies/ns/nobody"), 404, lost},
		{"query on a lease", request("GET", "/v1/leases/x?x=1"), 400, "invalid_request"},
		{"query on a release", request("DELETE", "/v1/leases/x?x=1"), 400, "invalid_request"},
		{"query on a renewal", strings.Replace(post(`{}`), "/v1/leases", "/v1/leases/x/renew?x=1", 1), 400, "invalid_request"},
		{"query on a report", strings.Replace(post(`{"result":"ok"}`), "/v1/leases", "/v1/leases/x/report?x=1", 1), 400, "invalid_request"},
		{"query on a proxy", request("GET", "/v1/proxies/ns/a?x=1"), 400, "invalid_request"},
		{"query on the contract", request("GET", "/openapi.json?x=1"), 400, "invalid_request"},
		{"malformed query on a lease", request("GET", "/v1/leases/x?%zz"), 400, "invalid_request"},
		{"bare question mark", request("GET", "/v1/leases/x?"), 404, "unknown_lease"},
		{"encoding before query", strings.Replace(post(`{}`, "Content-Encoding: gzip"), "/v1/leases", "/v1/leases?x=1", 1), 415, "unsupported_encoding"},
		{"encoding before key", post(`{}`, "Content-Encoding: gzip", "Idempotency-Key:"), 415, "unsupported_encoding"},
		{"cooldowns of a proxy", request("DELETE", "/v1/cooldowns?proxy=ns/a&target=shop.example"), 204, ""},
		{"cooldowns of no proxy", request("DELETE", "/v1/cooldowns"), 400, "invalid_request"},
		{"cooldowns of half a name", request("DELETE", "/v1/cooldowns?proxy=a"), 400, "invalid_request"},
		{"cooldowns of an unknown proxy", request("DELETE", "/v1/cooldowns?proxy=ns/nobody"), 404, lost},
		{"cooldowns of an empty target", request("DELETE", "/v1/cooldowns?proxy=ns/a&target="), 400, "invalid_request"},
	}
}

func authCases() []exchangeCase {
	const denied = "unauthorized"
	return []exchangeCase{
		{"no header", unauthenticated(), 401, denied},
		{"empty header", unauthenticated("Authorization:"), 401, denied},
		{"scheme alone", unauthenticated("Authorization: Bearer"), 401, denied},
		{"scheme and space", unauthenticated("Authorization: Bearer "), 401, denied},
		{"token alone", unauthenticated("Authorization: " + testToken), 401, denied},
		{"another scheme", unauthenticated("Authorization: Basic " + testToken), 401, denied},
		{"another token", unauthenticated("Authorization: Bearer " + testToken + "x"), 401, denied},
		{"half the token", unauthenticated("Authorization: Bearer " + testToken[:8]), 401, denied},
		{"token in capitals", unauthenticated("Authorization: Bearer " + strings.ToUpper(testToken)), 401, denied},
		{"tab between", unauthenticated("Authorization: Bearer\t" + testToken), 401, denied},
		{"right and something", unauthenticated("Authorization: Bearer " + testToken + " x"), 401, denied},
		{"two headers", unauthenticated("Authorization: Bearer "+testToken, "Authorization: Bearer "+testToken), 401, denied},
		{"comma", unauthenticated("Authorization: Bearer " + testToken + ", Bearer " + testToken), 401, denied},
		{"lower case", unauthenticated("authorization: bearer " + testToken), 200, ""},
		{"upper case", unauthenticated("AUTHORIZATION: BEARER " + testToken), 200, ""},
		{"several spaces", unauthenticated("Authorization:   Bearer   " + testToken + "  "), 200, ""},
		{"token in the query", strings.Replace(unauthenticated(), "/v1/proxies", "/v1/proxies?access_token="+testToken, 1), 401, denied},
		{"unknown path tells nothing", strings.Replace(unauthenticated(), "/v1/proxies", "/v1/nothing", 1), 401, denied},
		{"health is not a prefix", strings.Replace(unauthenticated(), "/v1/proxies", "/healthz/x", 1), 401, denied},
	}
}

func TestRawExchanges(t *testing.T) {
	f := newFixture(t)
	f.put("a")
	groups := map[string][]exchangeCase{
		"ttl": ttlCases(), "body": bodyCases(), "selector": selectorCases(), "target": targetCases(), "route": routeCases(), "auth": authCases(),
	}
	for group, cases := range groups {
		for _, tc := range cases {
			t.Run(group+"/"+tc.reason, func(t *testing.T) {
				a := f.raw(t, []byte(tc.send))
				if a.StatusCode != tc.status {
					t.Fatalf("%d %.300s, want %d", a.StatusCode, a.text, tc.status)
				}
				checkAnswer(t, a, tc)
			})
		}
	}
}

// checkAnswer checks what holds for every answer of that status. The code "-" stands for answers of net/http itself and
// answers without a body.
func checkAnswer(t *testing.T, a answer, tc exchangeCase) {
	t.Helper()
	if tc.code != "" && tc.code != "-" {
		if got := a.code(t); got != tc.code {
			t.Errorf("code %q, want %q", got, tc.code)
		}
		if got := a.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q", got)
		}
	}
	if strings.Contains(a.text, testToken) || len(tc.send) > 1000 && len(a.text) > 1000 {
		t.Errorf("the answer repeats the request: %.200s", a.text)
	}
	switch a.StatusCode {
	case http.StatusCreated:
		var l leaseView
		a.into(t, &l)
		if l.TTLSeconds < 1 || l.TTLSeconds > 3600 {
			t.Errorf("a lease of %d seconds", l.TTLSeconds)
		}
	case http.StatusUnauthorized:
		if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer ") {
			t.Errorf("WWW-Authenticate %q", a.Header.Get("WWW-Authenticate"))
		}
	case http.StatusMethodNotAllowed:
		if a.Header.Get("Allow") == "" {
			t.Error("no Allow")
		}
	case http.StatusNoContent:
		if a.text != "" {
			t.Errorf("204 with a body %q", a.text)
		}
	}
	if a.Header.Get("Location") != "" || a.StatusCode >= 500 {
		t.Errorf("status %d, Location %q", a.StatusCode, a.Header.Get("Location"))
	}
}
