package walk

import (
	"reflect"
	"strings"
	"testing"
)

const sample = "# A page\n" +
	"```console\n$ not followed\n```\n" +
	"<!-- walk: stays until \"It is up\" -->\n```console\n$ serve\n```\n" +
	"<!-- walk -->\n```console\n$ one \\\n    two\nout\n$ three\n```\n" +
	"<!-- walk -->\n```sh\na\nb\n```\n" +
	"<!-- walk -->\n```text\nc …\n```\n"

func TestParse(t *testing.T) {
	got, err := parse(strings.Split(sample, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []step{
		{line: 7, command: "serve", stays: "It is up"},
		{line: 11, command: "one \\\n    two", want: []string{"out"}},
		{line: 14, command: "three"},
		{line: 18, command: "a\nb", want: []string{"c …"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no block":       "<!-- walk -->\n\n```sh\na\n```",
		"a typing error": "<!-- walk stays -->\n```sh\na\n```",
		"unknown words":  "<!-- walk: runs -->\n```sh\na\n```",
		"no end":         "<!-- walk -->\n```sh\na",
		"no command":     "<!-- walk -->\n```text\na\n```",
		"output first":   "<!-- walk -->\n```console\na\n```",
		"a language":     "<!-- walk -->\n```yaml\na: b\n```",
	} {
		if steps, err := parse(strings.Split(text, "\n")); err == nil {
			t.Errorf("%s: taken as %+v", name, steps)
		}
	}
}

func TestDiffers(t *testing.T) {
	for _, tc := range []struct {
		want, got string
		same      bool
	}{
		{"a  b", "a b", true},
		{"a … c", "a b c", true},
		{"…\nlast", "x\ny\nlast", true},
		{"…\nlast", "last", true},
		{"a", "a\nb", false},
		{"a\nb", "a", false},
		{"a.c", "abc", false},
		{"127.0.81.4:…", "127.0.81.4:3128", true},
		{"a …", "b c", false},
	} {
		if why := differs(strings.Split(tc.want, "\n"), strings.Split(tc.got, "\n")); (why == "") != tc.same {
			t.Errorf("%q and %q: %s", tc.want, tc.got, why)
		}
	}
}
