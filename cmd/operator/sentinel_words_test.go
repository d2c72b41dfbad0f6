package main

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// sentinels are secrets by the place where they are planted. It is safe for concurrent use.
type sentinels struct {
	mu    sync.Mutex
	words map[string]string
	// seen are those that came to where they belong.
	seen map[string]bool
}

func newSentinels() *sentinels {
	return &sentinels{words: map[string]string{}, seen: map[string]bool{}}
}

// at returns the word for a place. Its letters are in no ID and no hash, its first eight tell it from all others.
func (s *sentinels) at(place string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.words[place] == "" {
		b := []byte("zq")
		for range 22 {
			b = append(b, "ghjkmnpqrstvwxyz"[rand.IntN(16)])
		}
		s.words[place] = string(b)
	}
	return s.words[place]
}

// is plants a word that others have made.
func (s *sentinels) is(place, word string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.words[place] = word
	return word
}

// arrived notes which of them are in what a party got that is to have them.
func (s *sentinels) arrived(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, word := range s.words {
		if strings.Contains(text, word) {
			s.seen[place] = true
		}
	}
}

// in returns the places whose word a text shows: its beginning, or all of it in base64, wherever in a longer text it stood.
func (s *sentinels) in(text string) (places []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for place, word := range s.words {
		shown := strings.Contains(text, word[:min(8, len(word))])
		for shift := range 3 {
			// The digits at either end depend on the neighbours.
			form := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + word))
			form = form[4*min(shift, 1) : len(form)-3]
			shown = shown || strings.Contains(text, form) || strings.Contains(text, strings.NewReplacer("+", "-", "/", "_").Replace(form))
		}
		if shown {
			places = append(places, place)
		}
	}
	return places
}

// absent fails the test where a text shows any but the allowed ones.
func (s *sentinels) absent(t *testing.T, where, text string, allowed ...string) {
	t.Helper()
	for _, place := range s.in(text) {
		ok := false
		for _, a := range allowed {
			ok = ok || a == place
		}
		if ok {
			continue
		}
		t.Errorf("%s shows what was planted as %s: %s", where, place, s.around(text, place))
	}
}

// around returns the neighbourhood of a word in a text.
func (s *sentinels) around(text, place string) string {
	i := max(0, strings.Index(text, s.words[place][:8]))
	return text[max(0, i-300):min(len(text), i+200)]
}

func TestSentinelsAreFound(t *testing.T) {
	t.Parallel()
	s := newSentinels()
	word := s.at("here")
	other := s.at("there")
	for _, text := range []string{
		word, "a" + word + "b", word[:9] + "…", base64.StdEncoding.EncodeToString([]byte("user:" + word)), base64.StdEncoding.EncodeToString([]byte("user1:" + word + "!")),
		base64.URLEncoding.EncodeToString([]byte("u:" + word + "??")), base64.StdEncoding.EncodeToString([]byte(word)),
	} {
		if got := s.in(text); len(got) != 1 || got[0] != "here" {
			t.Errorf("in %q there is %v", text, got)
		}
	}
	if got := s.in("nothing " + base64.StdEncoding.EncodeToString([]byte("user:password")) + word[9:]); len(got) > 0 {
		t.Errorf("there is %v where nothing is", got)
	}
	if s.arrived("x" + other); !s.seen["there"] || s.seen["here"] {
		t.Errorf("arrived: %v", s.seen)
	}
}
