package providertest

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// Bounds of what a status says, in bytes and entries.
const (
	maxMessageBytes = 512
	maxDetails      = 32
	maxDetailKey    = 63
	maxDetailValue  = 256
)

// answerSentinel stands for secrets in what a backend says.
const answerSentinel = "sentinel-answer-3d5a"

var detailKey = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?$`)

// noise is an error as backends write them: the n-th one differs from all others in what says nothing, and quotes
// secrets; more is how many further characters it has.
func noise(n, more int, secrets []string) string {
	text := fmt.Sprintf("the backend\x00 failed\n\tbadly \xff at 2024-05-01T12:00:%02dZ (request id: req-%04d) in trace 6ba7b810-9dad-11d1-80b4-%012d: "+
		"Authorization: Bearer %s, https://user:%s@host.example/path?sig=%s&n=%d", n%60, n, n, answerSentinel, answerSentinel, answerSentinel, n)
	for _, secret := range secrets {
		text += " Authorization: Bearer " + secret + " password=" + secret
	}
	return text + " and said " + strings.Repeat("ä€", more/2)
}

// checkTextRules are about what a status says in words.
func checkTextRules() []CheckRule {
	return []CheckRule{
		{"check-messages-are-clean", "A message is one line of at most 512 bytes of valid UTF-8, cleaned.", func(s *checkSuite) {
			s.everywhere(func(in string, got []provider.TargetStatus) {
				for _, st := range got {
					s.expectClean(in+": the message of "+st.Target, st.Message, maxMessageBytes)
				}
			})
		}},
		{"check-keeps-secrets", "No secret of the credentials or of an answer comes into a status or a log.", func(s *checkSuite) {
			hidden := append([]string{answerSentinel}, s.with.Secrets...)
			s.everywhere(func(in string, got []provider.TargetStatus) { s.expectHidden(in, fmt.Sprintf("%+v", got), hidden) })
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, line := range s.log {
				s.expectHidden("in the log", line, hidden)
			}
		}},
		{"check-details-are-bounded", "There are at most 32 details, with keys like those of labels of at most 63 bytes and clean values of at most 256.", func(s *checkSuite) {
			s.everywhere(func(in string, got []provider.TargetStatus) {
				for _, st := range got {
					if len(st.Details) > maxDetails {
						s.Errorf("%s: %s has %d details", in, st.Target, len(st.Details))
					}
					for key, value := range st.Details {
						if !detailKey.MatchString(key) || len(key) > maxDetailKey {
							s.Errorf("%s: %s has a detail %q", in, st.Target, key)
						}
						s.expectClean(in+": detail "+key+" of "+st.Target, value, maxDetailValue)
					}
				}
			})
		}},
	}
}

func (s *checkSuite) expectClean(what, text string, limit int) {
	s.Helper()
	if len(text) > limit || !utf8.ValidString(text) || message.Clean(text) != text {
		s.Errorf("%s has %d bytes, is valid UTF-8 %v and is not clean: %q", what, len(text), utf8.ValidString(text), text)
	}
}

func (s *checkSuite) expectHidden(where, text string, hidden []string) {
	s.Helper()
	for _, secret := range hidden {
		if strings.Contains(text, secret) {
			s.Errorf("%s: a secret shows in %.600q", where, text)
		}
	}
}
