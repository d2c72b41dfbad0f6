package message_test

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

const (
	password  = `correct"horse/battery+1`
	cloudInit = "#cloud-config\nwrite_files:\n- path: /etc/squid/passwd\n  content: 'crawler:hash-of-something'\nruncmd:\n- [systemctl, restart, squid]\n"
)

func TestSecretsAreHidden(t *testing.T) {
	s := message.NewSecrets([]string{password, "", "abc"}, []string{cloudInit, ""})
	for reason, text := range map[string]string{
		"as it is":               "the value '" + password + "' is not valid",
		"twice":                  password + password,
		"as JSON":                `{"password":"correct\"horse/battery+1"}`,
		"as base64":              "got " + base64.StdEncoding.EncodeToString([]byte(password)),
		"as base64 for URLs":     "got " + base64.URLEncoding.EncodeToString([]byte(password)),
		"escaped":                "GET /?p=" + url.QueryEscape(password),
		"cut off":                "invalid: " + password[:9] + "…",
		"cut off without a mark": "invalid: " + password[:6],
		"a document":             "invalid value for field 'metadata': '" + cloudInit + "'. at most",
		"on one line":            strings.Join(strings.Fields("invalid value: "+cloudInit), " "),
		"a line of it":           "bad line: content: 'crawler:hash-of-something'",
		"a document as base64":   "value " + base64.StdEncoding.EncodeToString([]byte(cloudInit)),
		"a document as JSON":     `"value": "#cloud-config\nwrite_files:\n- path: /etc/squid/passwd\n  content: 'crawler:hash"`,
	} {
		got := s.Hide(text)
		for _, secret := range []string{"horse", "correct", "crawler:hash", "/etc/squid/pas", "Y29ycmVjd", "I2Nsb3Vk"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q shows %q", reason, got, secret)
			}
		}
		if !strings.Contains(got, "…") {
			t.Errorf("%s: %q says nothing of what is missing", reason, got)
		}
	}
	for _, text := range []string{"", "abc", "ZONE_RESOURCE_POOL_EXHAUSTED: the zone has no e2-micro", "restart, squid"} {
		if got := s.Hide(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	var none *message.Secrets
	if got := none.Hide(password); got != password {
		t.Errorf("nil hides: %q", got)
	}
}

// Whatever stands around it, a password never shows, and what was valid UTF-8 stays so.
func TestNoTextShowsAPassword(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringN(8, 40, 60).Filter(utf8.ValidString).Draw(t, "secret")
		document := rapid.StringN(16, 200, 400).Draw(t, "document")
		text := rapid.String().Draw(t, "before") + secret + rapid.String().Draw(t, "between") + document + rapid.String().Draw(t, "after")
		s := message.NewSecrets([]string{secret}, []string{document})
		got := s.Hide(text)
		if secret != "…" && strings.Contains(got, secret) || len(document) >= 16 && !strings.Contains(secret, document) && strings.Contains(got, document) {
			t.Fatalf("%q shows %q or %q", got, secret, document)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatalf("%q is not valid UTF-8", got)
		}
	})
}
