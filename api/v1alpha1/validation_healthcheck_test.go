package v1alpha1_test

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestHealthCheckAbsentNullAndEmptyMeanTheSame(t *testing.T) {
	ns := newNamespace(t)
	want := checkDecodes(t, client.ObjectKeyFromObject(mustCreate(t, ns, managed()))).Spec.Probe()
	for name, e := range map[string]edit{
		"null":           set("healthCheck", nil),
		"empty":          set("healthCheck", map[string]any{}),
		"members null":   set("healthCheck", map[string]any{"url": nil, "interval": nil, "tls": nil, "failureThreshold": nil}),
		"tls null":       set("healthCheck.tls", nil),
		"tls empty":      set("healthCheck.tls", map[string]any{}),
		"spelt defaults": set("healthCheck", map[string]any{"url": "https://www.gstatic.com/generate_204", "interval": "30s", "timeout": "10s"}),
	} {
		t.Run(name, func(t *testing.T) {
			got := checkDecodes(t, client.ObjectKeyFromObject(mustCreate(t, ns, managed(e)))).Spec.Probe()
			if !reflect.DeepEqual(got, want) {
				t.Errorf("Probe() = %+v, want that of an absent healthCheck, %+v", got, want)
			}
		})
	}
}

func TestHealthCheckDurations(t *testing.T) {
	good := func(value string) row {
		return row{name: fmt.Sprintf("interval %q", value), reason: "a duration within bounds",
			obj: managed(set("healthCheck.interval", value))}
	}
	malformed := func(value string) row {
		return row{name: fmt.Sprintf("interval %q", value), reason: "no duration that both Go and CEL decode",
			obj: managed(set("healthCheck.interval", value)), field: "spec.healthCheck.interval",
			want: fmt.Sprintf("Invalid value: %q: must be a duration such as 90s", value)}
	}
	outOfBounds := func(field, value string) row {
		return row{name: fmt.Sprintf("%s %q", field, value), reason: "a duration out of bounds",
			obj: managed(set("healthCheck."+field, value)), field: "spec.healthCheck." + field,
			want: fmt.Sprintf("Invalid value: %q: %s must be between 1s and 24h", value, field)}
	}
	runRows(t, []row{
		good("1s"), good("30s"), good("1m"), good("1h30m"), good("1.5s"), good("24h"), good("23h59m59.999s"),
		good("1h0m0s"), good("1.5h"), good("0.5m"), good("1000ms"), good("1s500ms"), good("86400s"), good("1440m"), good("0h30s"),
		good("030s"), good("1.000000000000000000001s"),
		// Repeated and out-of-order units are unusual, but Go and CEL read them alike.
		good("1s1s"), good("30s1m"),
		outOfBounds("interval", "0s"), outOfBounds("interval", "500ms"), outOfBounds("interval", "0.5s"),
		outOfBounds("interval", "999.999ms"), outOfBounds("interval", "24h1s"), outOfBounds("interval", "24h1ms"),
		outOfBounds("interval", "25h"), outOfBounds("interval", "9999h"), outOfBounds("interval", "9999999m"),
		outOfBounds("timeout", "0s"), outOfBounds("timeout", "0.5s"), outOfBounds("timeout", "24h1s"), outOfBounds("timeout", "25h"),
		malformed(""), malformed("-1s"), malformed("+1s"), malformed("1d"), malformed("1w"), malformed("1 week"), malformed("9999999h"),
		malformed("1e3s"), malformed("30"), malformed("0"), malformed("s"), malformed(".5s"), malformed("1.s"), malformed("1..5s"),
		malformed("1,5s"), malformed("1h 30m"), malformed(" 30s"), malformed("30s "), malformed("30s\n"), malformed("30S"),
		malformed("1H"), malformed("30sec"), malformed("PT30S"), malformed("infinity"), malformed("9s9s9s9s9s"),
		malformed("1000000000ns"), malformed("2000000us"), malformed("2000000µs"), malformed("٣s"), malformed("0x10s"), malformed("1_000s"),
		{name: "33 characters", reason: "bounded", obj: managed(set("healthCheck.interval", "1."+strings.Repeat("0", 30)+"s")),
			field: "spec.healthCheck.interval", want: "may not be more than 32"},
		{name: "number", reason: "without a unit it says nothing", obj: managed(set("healthCheck.interval", 30)),
			field: "spec.healthCheck.interval", want: "must be of type string"},
		{name: "timeout malformed", reason: "one message, none about the interval", obj: managed(set("healthCheck.timeout", "1d")),
			field: "spec.healthCheck.timeout", want: `"1d": must be a duration such as`},
		{name: "interval malformed beside a timeout", reason: "one message, none about the timeout",
			obj:   managed(set("healthCheck.timeout", "5s"), set("healthCheck.interval", "1 week")),
			field: "spec.healthCheck.interval", want: `"1 week": must be a duration such as`},
		{name: "interval too short beside a timeout", reason: "one message, none about the timeout",
			obj:   managed(set("healthCheck.timeout", "5s"), set("healthCheck.interval", "0s")),
			field: "spec.healthCheck.interval", want: "must be between 1s and 24h"},
	})
}

func TestHealthCheckTimeoutAndInterval(t *testing.T) {
	hc := func(members map[string]any) object { return managed(set("healthCheck", members)) }
	runRows(t, []row{
		{name: "timeout below interval", reason: "usual", obj: hc(map[string]any{"interval": "1m", "timeout": "5s"})},
		{name: "timeout equal to interval", reason: "the bound itself", obj: hc(map[string]any{"interval": "1m", "timeout": "60s"})},
		{name: "timeout above interval", reason: "probes would overlap", obj: hc(map[string]any{"interval": "5s", "timeout": "10s"}),
			field: "spec.healthCheck.timeout", want: "timeout 10s must not be longer than interval 5s"},
		{name: "timeout a little above interval", reason: "lengths are compared, not text", obj: hc(map[string]any{"interval": "1m", "timeout": "60001ms"}),
			field: "spec.healthCheck.timeout", want: "timeout 60001ms must not be longer than interval 1m"},
		{name: "timeout 30s alone", reason: "the default interval is 30s", obj: hc(map[string]any{"timeout": "30s"})},
		{name: "timeout 31s alone", reason: "the default interval is 30s", obj: hc(map[string]any{"timeout": "31s"}),
			field: "spec.healthCheck.timeout", want: "timeout 31s must not be longer than interval 30s, the default"},
		{name: "interval 2s alone", reason: "the default timeout follows it down", obj: hc(map[string]any{"interval": "2s"})},
		{name: "both at the top", reason: "the highest bound", obj: hc(map[string]any{"interval": "24h", "timeout": "24h"})},
		{name: "both at the bottom", reason: "the lowest bound", obj: hc(map[string]any{"interval": "1s", "timeout": "1s"})},
	})
}

func TestHealthCheckURL(t *testing.T) {
	good := func(name, url string) row {
		return row{name: name, reason: "can be fetched through a proxy", obj: managed(set("healthCheck.url", url))}
	}
	bad := func(name, url string) row {
		return row{name: name, reason: "cannot be fetched, or not as written", obj: managed(set("healthCheck.url", url)),
			field: "spec.healthCheck.url", want: fmt.Sprintf("Invalid value: %q: url must be an absolute http or https URL", url)}
	}
	long := "https://example.com/" + strings.Repeat("a", 2048-len("https://example.com/"))
	runRows(t, []row{
		good("https", "https://example.com/healthz"), good("http", "http://example.com"), good("port", "http://example.com:8080/x"),
		good("highest port", "http://example.com:65535"), good("query", "https://example.com/a?b=c&d=%20"), good("query alone", "https://example.com?b=c"),
		good("IPv4", "http://192.0.2.1/"), good("IPv6", "http://[2001:db8::1]/"), good("IPv6 and port", "http://[2001:db8::1]:8080/"),
		good("upper-case scheme", "HTTPS://example.com/"), good("upper-case host", "https://Example.COM/"), good("underscore in host", "http://my_svc/"),
		good("at sign in the path", "https://example.com/@user"), good("escaped space", "https://example.com/a%20b"), good("2048", long),

		bad("ftp", "ftp://example.com/"), bad("no scheme", "example.com/"), bad("no scheme but slashes", "//example.com/"),
		bad("path", "/healthz"), bad("empty", ""), bad("no host", "http:///x"), bad("no host but a port", "http://:80/"), bad("opaque", "http:example.com"),
		bad("userinfo", "http://user:pass@example.com/"), bad("user", "http://user@example.com/"), bad("fragment", "http://example.com/#a"),
		bad("empty fragment", "http://example.com/#"), bad("space in the path", "http://example.com/a b"), bad("space in the host", "http://exa mple.com/"),
		bad("leading space", " http://example.com/"), bad("trailing newline", "http://example.com/\n"), bad("tab", "http://example.com/\t"),
		bad("backslash in the host", `http://example.com\@evil.example/`), bad("bad escape", "http://example.com/%zz"),
		bad("escape in the host", "http://%65xample.com/"), bad("unicode host", "http://bücher.example/"), bad("unicode path", "http://example.com/ü"),
		bad("port 0", "http://example.com:0/"), bad("port 65536", "http://example.com:65536/"), bad("port of many digits", "http://example.com:99999999999999999999/"),
		bad("port a name", "http://example.com:http/"), bad("IPv6 without brackets", "http://2001:db8::1/"), bad("open bracket", "http://[2001:db8::1/"),
		bad("IPv6 zone", "http://[fe80::1%25eth0]/"), bad("javascript", "javascript:alert(1)"),
		{name: "2049", reason: "bounded", obj: managed(set("healthCheck.url", long+"a")), field: "spec.healthCheck.url", want: "may not be more than 2048"},
	})
}

func TestHealthCheckNumbers(t *testing.T) {
	var rows []row
	for field, bounds := range map[string][2]int{"expectedStatus": {200, 599}, "successThreshold": {1, 100}, "failureThreshold": {1, 100}} {
		path := "healthCheck." + field
		rows = append(rows,
			row{name: field + " lowest", reason: "the bound itself", obj: managed(set(path, bounds[0]))},
			row{name: field + " highest", reason: "the bound itself", obj: managed(set(path, bounds[1]))},
			row{name: field + " below", reason: "out of bounds", obj: managed(set(path, bounds[0]-1)), field: "spec." + path,
				want: fmt.Sprintf("Invalid value: %d: ", bounds[0]-1)},
			row{name: field + " above", reason: "out of bounds", obj: managed(set(path, bounds[1]+1)), field: "spec." + path,
				want: fmt.Sprintf("Invalid value: %d: ", bounds[1]+1)},
			row{name: field + " negative", reason: "out of bounds", obj: managed(set(path, -1)), field: "spec." + path, want: "Invalid value: -1: "},
			row{name: field + " text", reason: "an integer", obj: managed(set(path, "204")), field: "spec." + path, want: "must be of type int"},
			row{name: field + " fraction", reason: "an integer", obj: managed(set(path, float64(bounds[0])+0.5)), field: "spec." + path, want: "must be of type int"})
	}
	runRows(t, rows)
}

func TestHealthCheckTLS(t *testing.T) {
	ca := func(value any) object { return managed(set("healthCheck.tls.caBundle", value)) }
	bad := func(name, reason, value string) row {
		return row{name: name, reason: reason, obj: ca(value), field: "spec.healthCheck.tls.caBundle",
			want: "caBundle must be base64 on one line of at most 65536 bytes"}
	}
	bundle := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	runRows(t, []row{
		{name: "empty", reason: "no adjustment", obj: managed(set("healthCheck.tls", map[string]any{}))},
		{name: "insecure", reason: "a boolean", obj: managed(set("healthCheck.tls.insecureSkipVerify", true))},
		{name: "insecure text", reason: "a boolean", obj: managed(set("healthCheck.tls.insecureSkipVerify", "yes")),
			field: "spec.healthCheck.tls.insecureSkipVerify", want: "must be of type boolean"},
		{name: "caBundle", reason: "base64", obj: ca(base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\n")))},
		{name: "caBundle of no bytes", reason: "no additional certificates", obj: ca("")},
		{name: "caBundle null", reason: "null means absent", obj: ca(nil)},
		{name: "caBundle 65534", reason: "no padding", obj: ca(bundle(65535))},
		{name: "caBundle 64 KiB", reason: "largest", obj: ca(bundle(64 << 10))},
		bad("caBundle 64 KiB and one", "too large, though the text is no longer", bundle(64<<10+1)),
		bad("caBundle 64 KiB and two", "too large, though the text is no longer", bundle(64<<10+2)),
		{name: "caBundle 64 KiB and three", reason: "too large", obj: ca(bundle(64<<10 + 3)),
			field: "spec.healthCheck.tls.caBundle", want: "may not be more than 87384"},
		bad("PEM itself", "forgot base64", "-----BEGIN CERTIFICATE-----"),
		bad("base64url", "another alphabet", "_-_-"),
		bad("no padding", "Go would not decode it", "YWJj"+"YQ"),
		bad("padding inside", "Go would not decode it", "YQ==YWJj"),
		bad("lines", "one line, or its length says nothing", "YWJj\nYWJj"),
		{name: "number", reason: "a string", obj: ca(5), field: "spec.healthCheck.tls.caBundle", want: "must be of type string"},
	})
}
