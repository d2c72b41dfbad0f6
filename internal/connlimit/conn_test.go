package connlimit

import (
	"io"
	"strings"
	"testing"
)

func TestHeaderLinesAreCountedToTheEndOfTheHeader(t *testing.T) {
	for text, want := range map[string]int{
		"":                                  0,
		"GET / HTTP/1.1":                    0,
		"GET / HTTP/1.1\r\n":                1,
		"GET / HTTP/1.1\r\nA: b\r\n":        2,
		"GET / HTTP/1.1\r\n\r\n\n\n\n":      2,
		"GET / HTTP/1.1\nA: b\n\nx\ny\n":    3,
		"GET / HTTP/1.1\r\nA: b\n \nC:\n":   4, // a continued line is no end
		"GET / HTTP/1.1\r\nA: \r\r\nC:\r":   2,
		"\r\n\r\n":                          1,
		strings.Repeat("\n", 5):             1,
		strings.Repeat("a\n", 5) + "\n\n\n": 6,
	} {
		for n := range len(text) + 1 { // however it is cut
			var h headerLines
			h.add([]byte(text[:n]))
			if got := h.add([]byte(text[n:])); got != want {
				t.Errorf("%q and %q: %d lines, want %d", text[:n], text[n:], got, want)
			}
		}
	}
}

// The byte may come while the request before is being read to its end.
func TestAByteThatCameBeforeTheWaitEndsIt(t *testing.T) {
	_, come, next := newLobby(t, 2)
	client := come()
	p := next()
	read := func(text string, size int) {
		t.Helper()
		go func() { _, _ = io.WriteString(client, text) }()
		if n, err := p.Read(make([]byte, size)); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
	}
	ended := 0
	during := func() (stop func()) { return p.During(func() { ended++ }) }
	read("a request", 4096)
	stop := during()
	if ended != 0 {
		t.Error("nothing came behind it")
	}
	read("G", 1)
	if ended != 1 {
		t.Errorf("ended %d times by a byte", ended)
	}
	stop()
	read("ET", 4096)
	if ended != 1 {
		t.Error("ended after it was over")
	}
	read("P", 1)
	during()
	if ended != 2 {
		t.Error("not ended by the byte that came before")
	}
}
