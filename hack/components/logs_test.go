package components

import "testing"

func TestTail(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"a\n", "a"},
		{"a\nb\n", "a\nb"},
		{"a\nb\nc\n\n", "b\nc"},
	} {
		if got := tail(c.text, 2); got != c.want {
			t.Errorf("tail(%q, 2) = %q, want %q", c.text, got, c.want)
		}
	}
}
