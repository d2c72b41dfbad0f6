package forge

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest   = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	namedFlag   = regexp.MustCompile("`(--[a-z0-9-]+)")
	namedRule   = regexp.MustCompile(`\bR[0-9]+\b`)
	namedPath   = regexp.MustCompile("`((?:internal|cmd|hack|config|docs|test)/[A-Za-z0-9_./-]+)`")
	linked      = regexp.MustCompile(`\]\(([^)#]+)`)
	namedTarget = regexp.MustCompile("`make ([a-z0-9-]+)")
	testFunc    = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
)

// allTests are the names of the tests of this module, with the folder of each.
func allTests(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	must(t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		data, err := os.ReadFile(p)
		for _, m := range testFunc.FindAllStringSubmatch(string(data), -1) {
			out[m[1]] = append(out[m[1]], filepath.ToSlash(filepath.Dir(p)))
		}
		return err
	}))
	return out
}

// TestWhatIsPromisedIsThere holds the two pages on which people decide whether to trust a release to the repository.
func TestWhatIsPromisedIsThere(t *testing.T) {
	tests, flags, rules, makefile := allTests(t), read(t, "docs/flags.md"), read(t, "docs/guarantees.md"), read(t, "Makefile")
	for _, page := range []string{"SECURITY.md", "docs/releases.md"} {
		text := read(t, page)
		each := func(what *regexp.Regexp, is func(string) bool) {
			t.Helper()
			for _, m := range what.FindAllStringSubmatch(text, -1) {
				if !is(m[len(m)-1]) {
					t.Errorf("%s names %s, which is not there", page, m[len(m)-1])
				}
			}
		}
		exists := func(from string) func(string) bool {
			return func(p string) bool {
				_, err := os.Stat(filepath.Join(root, from, p))
				return err == nil
			}
		}
		each(namedTest, func(name string) bool { return len(tests[name]) > 0 })
		each(namedRule, func(rule string) bool { return strings.Contains(rules, "**"+rule+".**") })
		each(namedTarget, func(name string) bool { return strings.Contains(makefile, "\n"+name+":") })
		each(namedPath, exists("."))
		if page == "SECURITY.md" {
			each(namedFlag, func(flag string) bool { return strings.Contains(flags, "| `"+flag+"` |") })
		}
		each(linked, func(link string) bool { return strings.Contains(link, "://") || exists(filepath.Dir(page))(link) })
	}
}

// TestEveryThreatIsAnsweredWhole wants of each what stops it, proven by a test or a rule, and what remains.
func TestEveryThreatIsAnsweredWhole(t *testing.T) {
	_, threats, _ := strings.Cut(read(t, "SECURITY.md"), "\n## Threats\n")
	parts := strings.Split(threats, "\n### ")[1:]
	if len(parts) < 8 {
		t.Fatalf("%d threats", len(parts))
	}
	for _, p := range parts {
		title, _, _ := strings.Cut(p, "\n")
		if !strings.Contains(p, "\n*") || !strings.Contains(p, "\n**What remains.** ") || (!namedTest.MatchString(p) && !namedRule.MatchString(p)) {
			t.Errorf("%s: an attacker, a test and what remains are wanted", title)
		}
	}
}
