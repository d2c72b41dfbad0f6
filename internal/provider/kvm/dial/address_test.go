package dial

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]string{
		"host":                 "host:22",
		"Host.Example.":        "Host.Example.:22",
		"host:2222":            "host:2222",
		"host:022":             "host:22",
		"192.0.2.1":            "192.0.2.1:22",
		"192.0.2.1:1":          "192.0.2.1:1",
		"[2001:DB8:0::1]":      "[2001:db8::1]:22",
		"[2001:db8::1]:65535":  "[2001:db8::1]:65535",
		"2001:db8::1":          "[2001:db8::1]:22",
		"fe80::1%eth0":         "[fe80::1%eth0]:22",
		"[fe80::1%eth0.5]:222": "[fe80::1%eth0.5]:222",
	} {
		got, err := parseAddress(in)
		if err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", ":", ":22", "host:", "host:0", "host:65536", "host:+22", "host:-1", "host:2_2", "host:ssh", "host:1:2", "user@host",
		"ssh://host", "ho st", "host\n", "-oProxyCommand=x", "[host]", "[host", "host]", "[]", "[]:22", "[::1", "[[::1]]:22", "::1]:22", "*", "a,b", "|1|a|b",
		"[fe80::1%a b]:22", "[fe80::1%]:22", "hösts", strings.Repeat("a", 254)} {
		if got, err := parseAddress(in); err == nil {
			t.Errorf("%q: got %v", in, got)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"host", "host:22", "[::1]:22", "::1", "fe80::1%eth0", "[fe80::1%25]:1", "[host]", "[::ffff:1.2.3.4]", "1.2.3.4", "a:b:c", "user@host"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := parseAddress(s)
		if err != nil {
			return
		}
		again, err := parseAddress(at.String())
		if err != nil || again != at {
			t.Errorf("%q: %v becomes %v, %v", s, at, again, err)
		}
		host, _, err := net.SplitHostPort(at.String())
		if err != nil || host != at.host || at.port == 0 {
			t.Errorf("%q: %v: %q, %v", s, at, host, err)
		}
		if _, err := netip.ParseAddr(host); err != nil && strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			t.Errorf("%q: the host is %q", s, host)
		}
	})
}
