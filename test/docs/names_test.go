package docs

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

	// What a span has to be to count as a name of this kind.
	envName     = regexp.MustCompile(`^\$?\{?([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\}?(?:=.*)?$`)
	camelName   = regexp.MustCompile(`^[A-Z]+[a-z0-9]+(?:[A-Z][A-Za-z0-9]*)*$`)
	memberName  = regexp.MustCompile(`^[a-z]+[a-zA-Z0-9]*(?:[.\[][A-Za-z0-9.\[\]]+)?$`)
	flagName    = regexp.MustCompile(`^(--[a-z][a-z0-9-]*)(?:[= ].*)?$`)
	pathName    = regexp.MustCompile(`^(?:api|cmd|config|docs|hack|internal|pkg|test|\.ci)/[A-Za-z0-9_./*-]+$`)
	makeCommand = regexp.MustCompile(`(?:^|[;&|$(] *)make ([a-z][a-z0-9-]*)`)
	metricName  = regexp.MustCompile(`proxy_operator_[a-z0-9_]+`)
	fieldName   = regexp.MustCompile(`^(?:spec|status)(?:\.[A-Za-z]+(?:\[\])?)+$`)
	ownKey      = regexp.MustCompile(`(?:^|[^.a-z])crawl\.example\.com/([a-z][a-z-]*)`)
	// In code a key is written out, or is made of the group's name.
	ownKeyInCode = regexp.MustCompile(`crawl\.example\.com/([a-z][a-z-]*)|Group \+ "/([a-z-]+)"`)
	upper        = regexp.MustCompile(`[A-Z]`)
)

// vocabulary is every word of what is neither a page nor these tests.
func vocabulary(t *testing.T) (words map[string]bool, text map[string]string) {
	t.Helper()
	words, text = map[string]bool{}, map[string]string{}
	walk(t, func(p string) {
		switch ext := path.Ext(p); {
		case ext == ".md", ext == ".png", ext == ".sum", strings.HasPrefix(p, "test/docs/"):
			return
		}
		text[p] = read(t, p)
		for _, w := range word.FindAllString(text[p], -1) {
			words[w] = true
		}
	})
	return words, text
}

// TestNames: what a page has in code style and looks like one of our names is one. A condition, a reason, a member of an object or
// of a configuration, a variable: each of these has to be in the code somewhere, letter by letter.
func TestNames(t *testing.T) {
	words, _ := vocabulary(t)
	// The names of these are made of the flags'.
	for _, name := range regexp.MustCompile("EPX_[A-Z_]+").FindAllString(read(t, "docs/flags.md"), -1) {
		words[name] = true
	}
	checked := 0
	for _, p := range pages(t) {
		for _, s := range p.spans() {
			for _, name := range namesIn(s.text) {
				checked++
				if !words[name] && !slices.Contains(foreign, name) {
					t.Errorf("%s: `%s`: there is no %s anywhere", p.at(s.line), s.text, name)
				}
			}
		}
	}
	if checked < 500 {
		t.Fatalf("only %d names were found", checked)
	}
}

// namesIn returns what has to exist of a span, nothing for one that is no name.
func namesIn(s string) []string {
	if m := envName.FindStringSubmatch(s); m != nil {
		return m[1:2]
	}
	if camelName.MatchString(s) {
		return []string{s}
	}
	if memberName.MatchString(s) && upper.MatchString(s) {
		return word.FindAllString(s, -1)
	}
	return nil
}

// TestFields: a span that begins with spec or status is a member of one of the two kinds of objects, by the generated reference.
func TestFields(t *testing.T) {
	known := map[string]bool{}
	for _, p := range []string{"docs/reference/proxy.md", "docs/reference/providerhealth.md"} {
		for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(read(t, p), -1) {
			known[m[1]] = true
		}
	}
	checked := 0
	for _, p := range pages(t) {
		for _, s := range p.spans() {
			if !fieldName.MatchString(s.text) || slices.Contains(foreign, s.text) {
				continue
			}
			checked++
			if !known[s.text] {
				t.Errorf("%s: no object has %s", p.at(s.line), s.text)
			}
		}
	}
	if checked < 100 {
		t.Fatalf("only %d members were found", checked)
	}
}

// TestFlags: a span that begins with -- is a flag of one of the two programs, or of another program that is listed.
func TestFlags(t *testing.T) {
	flags := ownFlags(t)
	check := func(p page, line int, text string) {
		if m := flagName.FindStringSubmatch(text); m != nil && !flags[m[1]] && !slices.Contains(foreignFlags, m[1]) {
			t.Errorf("%s: neither the operator nor egress-proxy has a flag %s", p.at(line), m[1])
		}
	}
	for _, p := range pages(t) {
		for _, s := range p.spans() {
			check(p, s.line, s.text)
		}
		for _, b := range p.blocks {
			for i, l := range strings.Split(b.text, "\n") {
				if !strings.Contains(l, "bin/operator ") && !strings.Contains(l, "bin/egress-proxy ") {
					continue
				}
				for _, f := range strings.Fields(l) {
					check(p, b.line+i, f)
				}
			}
		}
	}
}

// ownFlags are those of docs/flags.md, which is generated, and those in the source of egress-proxy.
func ownFlags(t *testing.T) map[string]bool {
	t.Helper()
	flags := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(--[a-z-]+)`").FindAllStringSubmatch(read(t, "docs/flags.md"), -1) {
		flags[m[1]] = true
	}
	if len(flags) < 30 {
		t.Fatalf("docs/flags.md has only %d flags", len(flags))
	}
	const proxy = "cmd/egress-proxy"
	own := len(flags)
	walk(t, func(p string) {
		if path.Dir(p) == proxy && !strings.HasSuffix(p, "_test.go") {
			for _, m := range regexp.MustCompile(`(?:Var|Func|String|Bool|Duration|Int)\((?:&[\w.]+, )?"([a-z-]+)"`).FindAllStringSubmatch(read(t, p), -1) {
				flags["--"+m[1]] = true
			}
		}
	})
	if len(flags) == own {
		t.Fatalf("no flag was found in %s", proxy)
	}
	return flags
}

// TestMetrics: metrics are in docs/metrics.md, which is generated, or are made of them by a recording rule.
func TestMetrics(t *testing.T) {
	known := map[string]bool{}
	for _, m := range metricName.FindAllString(read(t, "docs/metrics.md"), -1) {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			known[m+suffix] = true
		}
	}
	for _, p := range pages(t) {
		text := read(t, p.path)
		for _, m := range metricName.FindAllStringIndex(text, -1) {
			name := text[m[0]:m[1]]
			if !known[name] && !strings.HasSuffix(name, "_") && !strings.HasPrefix(text[m[1]:], "*") {
				t.Errorf("%s: there is no metric %s", p.at(lineAt(text, m[0])), name)
			}
		}
	}
}

// TestKeys: labels, annotations and finalizers of our own are in the code, or in manifests where only these know them.
func TestKeys(t *testing.T) {
	_, text := vocabulary(t)
	known := map[string]bool{}
	for p, s := range text {
		if ext := path.Ext(p); ext == ".go" || ext == ".yaml" || ext == ".tpl" {
			for _, m := range ownKeyInCode.FindAllStringSubmatch(s, -1) {
				known[m[1]+m[2]] = true
			}
		}
	}
	for _, p := range pages(t) {
		text := read(t, p.path)
		for _, m := range ownKey.FindAllStringSubmatchIndex(text, -1) {
			if !known[text[m[2]:m[3]]] {
				t.Errorf("%s: there is no key crawl.example.com/%s", p.at(lineAt(text, m[0])), text[m[2]:m[3]])
			}
		}
	}
}

// TestMakeTargets: what a page has make do is a target.
func TestMakeTargets(t *testing.T) {
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	check := func(p page, line int, text string) {
		for _, m := range makeCommand.FindAllStringSubmatch(text, -1) {
			if !targets[m[1]] {
				t.Errorf("%s: the Makefile has no target %s", p.at(line), m[1])
			}
		}
	}
	for _, p := range pages(t) {
		for _, s := range p.spans() {
			check(p, s.line, s.text)
		}
		for _, b := range p.blocks {
			if b.language != "sh" && b.language != "bash" && b.language != "console" {
				continue
			}
			for i, l := range strings.Split(b.text, "\n") {
				check(p, b.line+i, strings.TrimPrefix(l, "$ "))
			}
		}
	}
}

// TestPaths: files and folders of the repository that a page names are there.
func TestPaths(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		for _, s := range p.spans() {
			if !pathName.MatchString(s.text) || strings.HasPrefix(s.text, madeByReaders) {
				continue
			}
			checked++
			if found, err := filepath.Glob(filepath.Join(root, s.text)); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", p.at(s.line), s.text)
			}
		}
	}
	if checked < 15 {
		t.Fatalf("only %d paths were found", checked)
	}
}
