package instancelock

import "testing"

func TestParseStartTime(t *testing.T) {
	const tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 98765 20"
	cases := []struct {
		name, stat, want, reason string
		fails                    bool
	}{
		{name: "plain", stat: "12 (proxy)" + tail, want: "98765", reason: "field 22"},
		{name: "blanks and parentheses", stat: "12 (a) S 1 (b c)" + tail, want: "98765", reason: "only the last ')' ends the name"},
		{name: "empty", stat: "", fails: true, reason: "no name"},
		{name: "short", stat: "12 (proxy) S 1 2", fails: true, reason: "too few fields"},
		{name: "not a number", stat: "12 (proxy) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20", fails: true, reason: "garbage must not become an identity"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseStartTime([]byte(tc.stat))
			if got != tc.want || (err != nil) != tc.fails {
				t.Fatalf("%s: got %q, %v", tc.reason, got, err)
			}
		})
	}
}
