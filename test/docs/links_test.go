package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

func itoa(n int) string { return strconv.Itoa(n) }

var (
	link      = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	namedHere = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
)

// TestLinks: every relative link leads to a file of the repository and to a heading there. Links to elsewhere are not followed,
// but have to be https.
func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.path] = anchorsOf(p)
	}
	checked := 0
	for _, p := range all {
		prose := codeSpan.ReplaceAllStringFunc(p.prose, func(s string) string { return strings.Repeat("x", len(s)) })
		for _, m := range link.FindAllStringSubmatchIndex(prose, -1) {
			checked++
			if why := broken(p.path, p.prose[m[2]:m[3]], anchors); why != "" {
				t.Errorf("%s: %s: %s", p.at(lineAt(prose, m[0])), p.prose[m[2]:m[3]], why)
			}
		}
	}
	if checked < 300 {
		t.Fatalf("only %d links were found", checked)
	}
}

// broken says what is wrong with a link, "" for nothing.
func broken(from, target string, anchors map[string]map[string]bool) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme == "https" && u.Host != "":
		return ""
	case u.Scheme != "" || u.Host != "":
		return "neither https nor a file of this repository"
	}
	file := from
	if u.Path != "" {
		file = path.Join(path.Dir(from), u.Path)
	}
	if strings.HasPrefix(file, "../") {
		return "it leads out of the repository"
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
		return "there is no " + file
	}
	if u.Fragment == "" {
		return ""
	}
	known, ok := anchors[file]
	if !ok {
		return file + " is no page, so it has no anchors"
	}
	if !known[u.Fragment] {
		return file + " has no heading for #" + u.Fragment
	}
	return ""
}

// anchorsOf returns what the forge makes of headings: letters, digits, hyphens and underscores in lower case, blanks as
// hyphens, and a number behind one that is there already.
func anchorsOf(p page) map[string]bool {
	out, times := map[string]bool{}, map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(p.prose, -1) {
		text := strings.ReplaceAll(linkText.ReplaceAllString(m[1], "$1"), "`", "")
		var b strings.Builder
		for _, r := range strings.ToLower(text) {
			switch {
			case r == ' ':
				b.WriteByte('-')
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
				b.WriteRune(r)
			}
		}
		anchor := b.String()
		if n := times[anchor]; n > 0 {
			out[anchor+"-"+itoa(n)] = true
		} else {
			out[anchor] = true
		}
		times[anchor]++
	}
	for _, m := range namedHere.FindAllStringSubmatch(p.prose, -1) {
		out[m[1]] = true
	}
	return out
}

func TestAnchors(t *testing.T) {
	p := parse(t, "p.md", "# `GET /v1/leases/{id}`\n## Who gets in?\n## A [link](x.md), twice\n## A [link](x.md), twice\n```sh\n# a comment\n```\n")
	got := anchorsOf(p)
	for _, want := range []string{"get-v1leasesid", "who-gets-in", "a-link-twice", "a-link-twice-1"} {
		if !got[want] {
			t.Errorf("no #%s in %v", want, got)
		}
	}
	if got["a-comment"] {
		t.Error("a comment in a block counts as a heading")
	}
}
