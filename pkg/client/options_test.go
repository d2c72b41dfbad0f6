package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptionsAreChecked(t *testing.T) {
	good := "http://api.test:8090"
	for want, o := range map[string]Options{
		"BaseURL is required":   {},
		"BaseURL must begin":    {BaseURL: "ftp://api.test"},
		"BaseURL is not":        {BaseURL: "http://[::1"},
		"BaseURL names no host": {BaseURL: "http:///v1"},
		"user or password":      {BaseURL: "http://u:SENTINEL@api.test"},
		"query or fragment":     {BaseURL: "http://api.test?x=SENTINEL"},
		"only one of Token":     {BaseURL: good, Token: "x", TokenSource: TokenFile("x")},
		"visible ASCII":         {BaseURL: good, Token: "SENTINEL\n"},
		"RequestTimeout":        {BaseURL: good, RequestTimeout: time.Hour},
	} {
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SENTINEL") {
			t.Errorf("%s: error is %v", want, err)
		}
	}
	c, err := New(Options{BaseURL: good + "/prefix/"})
	if err != nil || c.base.String() != good+"/prefix" {
		t.Errorf("%v, %v", c, err)
	}
}

func TestTokenFileIsReadEveryTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	source := TokenFile(path)
	if _, err := source(t.Context()); err == nil {
		t.Error("a missing file is a token")
	}
	for text, want := range map[string]string{"one\n": "one", " two": "two", "\n": "", strings.Repeat("x", 70<<10): ""} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := source(t.Context())
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%.10q: %.10q, %v", text, got, err)
		}
	}
}

func TestCanonicalTarget(t *testing.T) {
	for in, want := range map[string]string{
		"Shop.Example.": "shop.example", "bücher.example": "xn--bcher-kva.example", "192.0.2.1": "192.0.2.1", "[2001:DB8::0:1]": "2001:db8::1",
		"::ffff:192.0.2.1": "192.0.2.1", "localhost": "localhost", "r3---sn-x.example": "r3---sn-x.example",
		"": "", ".": "", "a..b": "", "a:80": "", "http://a": "", "a/b": "", "a_b.example": "", "-a": "", "fe80::1%eth0": "",
		strings.Repeat("a.", 200): "", strings.Repeat("a", 64): "", "[a]": "a", "a b": "", "ü\x00": "",
	} {
		got, err := CanonicalTarget(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", in, got, err, want)
		}
	}
}
