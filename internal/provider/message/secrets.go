package message

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"
)

const (
	// leastSecret is how long a word has to be to be hidden, in bytes: a shorter one is in every other text.
	leastSecret = 4
	// leastRun is how much of a document in a row shows that a text quotes it, in bytes.
	leastRun = 16
)

// Secrets hides secrets in texts that others have made: a backend may quote what it was given. The zero value, and nil, hide
// nothing.
type Secrets struct {
	words     []string
	documents []string
}

// NewSecrets returns what hides words (passwords, of 4 bytes and more) wherever they stand, and of documents (cloud-init) each
// run of 16 bytes and more. Both are also found as JSON, as base64 and escaped for URLs.
func NewSecrets(words, documents []string) *Secrets {
	s := &Secrets{}
	for _, w := range words {
		for _, form := range forms(w) {
			if len(form) >= leastSecret {
				s.words = append(s.words, form)
			}
		}
	}
	for _, d := range documents {
		for _, form := range forms(d) {
			if len(form) >= leastRun {
				s.documents = append(s.documents, form)
			}
		}
	}
	return s
}

// forms are the ways in which a text is written.
func forms(s string) []string {
	if s == "" {
		return nil
	}
	out := []string{s}
	add := func(form string) {
		for _, have := range out {
			if have == form {
				return
			}
		}
		out = append(out, form)
	}
	if quoted, err := json.Marshal(s); err == nil {
		add(strings.Trim(string(quoted), `"`))
	}
	add(strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(s)), "="))
	add(strings.TrimRight(base64.URLEncoding.EncodeToString([]byte(s)), "="))
	add(url.QueryEscape(s))
	return out
}

// Hide returns text without the secrets. It takes time in the lengths of both, so it is for texts that are short.
func (s *Secrets) Hide(text string) string {
	if s == nil || text == "" {
		return text
	}
	for _, w := range s.words {
		text = strings.ReplaceAll(text, w, elided)
		text = withoutBeginning(text, w)
	}
	for _, d := range s.documents {
		text = withoutRuns(text, d)
	}
	return text
}

// withoutBeginning takes the beginning of a word off the end of a text that was cut there.
func withoutBeginning(text, word string) string {
	body := strings.TrimSuffix(text, elided)
	for n := min(len(word)-1, len(body)); n >= leastSecret; n-- {
		if strings.HasSuffix(body, word[:n]) {
			return body[:len(body)-n] + elided
		}
	}
	return text
}

// withoutRuns replaces what stands in the document, too.
func withoutRuns(text, document string) string {
	if len(text) < leastRun {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); {
		if i+leastRun > len(text) || !strings.Contains(document, text[i:i+leastRun]) {
			_, n := utf8.DecodeRuneInString(text[i:])
			out.WriteString(text[i : i+n])
			i += n
			continue
		}
		end := i + leastRun
		for end < len(text) && strings.Contains(document, text[i:end+1]) {
			end++
		}
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		out.WriteString(elided)
		i = end
	}
	return out.String()
}
