package reload

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	// maxProblem bounds what Problem returns, in bytes.
	maxProblem = 512
	elided     = "…"
)

// Problem says why what the file says of the entry now is not in force, and "" when it is. The text is deterministic, without
// secrets, valid UTF-8 and at most 512 bytes. It begins with a reason and a colon: for every entry "InvalidConfiguration:" or
// "Unreadable:", or for one of them what registry.Why can be. It does not block.
func (r *Reloader) Problem(entry string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem != "" {
		return r.problem
	}
	return r.refused[entry]
}

// set replaces what is known. It returns the entries of which something new is said, and whether anything differs at all.
func (r *Reloader) set(problem string, refused map[string]string) (news []string, differs bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if r.refused[name] != refused[name] {
			news = append(news, name)
		}
	}
	differs = len(news) > 0 || len(refused) != len(r.refused) || problem != r.problem
	r.problem, r.refused = problem, refused
	return news, differs
}

// problemOf is the text for a file that cannot be used.
func problemOf(result string, err error) string {
	if result == Unreadable {
		return bounded("Unreadable: the file cannot be read: " + message.Clean(err.Error()))
	}
	var said []string
	for line := range strings.Lines(err.Error()) { // one for each problem
		said = append(said, withoutSecrets(message.Clean(line)))
	}
	return bounded("InvalidConfiguration: the file has faults: " + strings.Join(said, "; "))
}

func refusalText(one registry.Refusal) string {
	return bounded(string(one.Why) + ": " + withoutSecrets(one.Text))
}

// What somebody may have put into the file in the place of the name of another one. It is for whoever can read the file, and
// these texts are for more people.
var (
	pem     = regexp.MustCompile(`-----BEGIN [^-]*-----[\s\S]*`)
	opaque  = regexp.MustCompile(`[A-Za-z0-9+/=_.~-]{32,}`)
	letters = []*regexp.Regexp{regexp.MustCompile(`[a-z]`), regexp.MustCompile(`[A-Z]`), regexp.MustCompile(`[0-9]`)}
)

// withoutSecrets hides keys and what looks like a token: long, and of letters of both cases and digits.
func withoutSecrets(s string) string {
	s = pem.ReplaceAllString(s, elided)
	return opaque.ReplaceAllStringFunc(s, func(word string) string {
		for part := range strings.FieldsFuncSeq(word, func(c rune) bool { return c == '/' || c == '.' }) {
			if len(part) >= 20 && all(part) {
				return elided
			}
		}
		return word
	})
}

func all(s string) bool {
	for _, l := range letters {
		if !l.MatchString(s) {
			return false
		}
	}
	return true
}

func bounded(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxProblem {
		return s
	}
	end := maxProblem - len(elided)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + elided
}
