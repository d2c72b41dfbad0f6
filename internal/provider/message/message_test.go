package message

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for _, tc := range []struct{ reason, in, want string }{
		{"plain text stays", `failed to pull image "ubuntu/squid:1": not found`, `failed to pull image "ubuntu/squid:1": not found`},
		{"a request ID", "denied (request id: 7f3c-AB12)", "denied"},
		{"another", "toomanyrequests, RequestID=abc123, retry", "toomanyrequests, retry"},
		{"a trace", "boom; trace-id 00f067aa0ba902b7", "boom"},
		{"a UUID", "object 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is gone", "object … is gone"},
		{"a signed query", "Get https://r/v2/blob?X-Amz-Signature=abcdef&e=1: 403", "Get https://r/v2/blob 403"},
		{"a password", `Get "https://user:hunter2@registry/v2/": EOF`, `Get "https://registry/v2/": EOF`},
		{"a token", "Authorization: Bearer eyJhbGciOi.abc.def refused", "Authorization: Bearer … refused"},
		{"a secret by name", "token=s3cr3t is wrong", "token=… is wrong"},
		{"our end of a connection", "read tcp 10.0.0.1:51234->192.0.2.1:443: i/o timeout", "read tcp 192.0.2.1:443: i/o timeout"},
		{"times", "expired at 2024-05-01T12:00:00Z", "expired at …"},
		{"the kubelet's patience", "back-off 2m40s restarting failed container", "back-off restarting failed container"},
		{"line breaks", "a\n\tb", "a b"},
		{"not UTF-8", "a\xffb", "a\uFFFDb"},
	} {
		if got := Clean(tc.in); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
	for n := range 8 {
		if got := Clean(strings.Repeat("x", n) + strings.Repeat("ä€", 10000)); len(got) > maxMessage || !utf8.ValidString(got) {
			t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
		}
	}
}
