// Package message makes what backends say fit to be shown.
package message

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage bounds what is passed on of a message, in bytes.
const maxMessage = 512

const elided = "…"

// replacement is what is put in the place of something.
type replacement struct {
	pattern *regexp.Regexp
	with    string
}

// secret is what says too much, whatever else is secret.
var secret = []replacement{
	{regexp.MustCompile(`://[^/@\s"']+@`), "://"},                                                      // user and password
	{regexp.MustCompile(`\?[^\s"'?]+=[^\s"']*`), ""},                                                   // query, which may be signed
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`), "$1 " + elided},                 // tokens
	{regexp.MustCompile(`\S*\$2[abxy]?\$\d\d\$[./A-Za-z0-9]*`), elided},                                // hashes of passwords, and whose
	{regexp.MustCompile(`(?i)\b(token|password|secret|signature|apikey|api_key)=\S+`), "$1=" + elided}, // secrets by name
}

// volatile is what differs from one time to the next without saying anything: messages become part of a condition, and a
// condition that changes is written.
var volatile = []replacement{
	{regexp.MustCompile(`(?i)[\s,;(]*\b(request|trace|correlation|audit)[ _-]?id\b["']?\s*[:=]?\s*["']?[\w.:-]+["')]?`), ""}, // IDs of requests
	{regexp.MustCompile(`(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), elided},                     // UUIDs
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*`), elided},                                                   // times
	{regexp.MustCompile(`(\S+:\d+)->`), ""},                                                                                  // our end of a connection
	{regexp.MustCompile(`(?i)\bback-off (\d+[hms.]+)+ `), "back-off "},                                                       // the kubelet's patience
}

// Discreet returns s without what may be a secret by its form, and otherwise as it is: tokens, hashes of passwords, user and
// password of URLs, and their queries, which may be signed.
func Discreet(s string) string { return replaced(s, secret) }

func replaced(s string, all []replacement) string {
	for _, r := range all {
		s = r.pattern.ReplaceAllString(s, r.with)
	}
	return s
}

// Clean returns s as it may stand in a condition, an event or a log: at most 512 bytes of valid UTF-8 on one line, without
// what differs from one time to the next, and without what may be a secret.
func Clean(s string) string {
	// What is cut away must not cost more than what is kept.
	s = cut(s, 8*maxMessage)
	s = replaced(Discreet(s), volatile)
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' ' // it would go to somebody's terminal
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	return cut(s, maxMessage)
}

// cut shortens s to limit bytes of valid UTF-8.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	end := limit - len(elided)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + elided
}
