package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// page is a Markdown file taken apart.
type page struct {
	path string // from the root of the repository
	// prose is the text without its fenced blocks and with as many lines.
	prose  string
	blocks []block
}

// block is a fenced block.
type block struct {
	language string
	line     int // of its first line
	text     string
}

// at names a place for a message.
func (p page) at(line int) string { return p.path + ":" + itoa(line) }

// span is text in code style within prose.
type span struct {
	text string
	line int
}

var (
	fence    = regexp.MustCompile("^ *```([a-z]*)$")
	codeSpan = regexp.MustCompile("`([^`]+)`")
	ws       = regexp.MustCompile(`\s+`)
)

// spans returns what stands in code style, a line break in it counting as a blank.
func (p page) spans() []span {
	var out []span
	for _, m := range codeSpan.FindAllStringSubmatchIndex(p.prose, -1) {
		out = append(out, span{ws.ReplaceAllString(p.prose[m[2]:m[3]], " "), lineAt(p.prose, m[0])})
	}
	return out
}

// pages returns every Markdown file of the repository. That there are few means that they are not found.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	walk(t, func(path string) {
		if filepath.Ext(path) == ".md" {
			all = append(all, parse(t, path, read(t, path)))
		}
	})
	if len(all) < 50 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func parse(t *testing.T, path, text string) page {
	t.Helper()
	p := page{path: path}
	var prose strings.Builder
	var in *block
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case m != nil && in == nil:
			in = &block{language: m[1], line: i + 2}
		case m != nil:
			p.blocks = append(p.blocks, *in)
			in = nil
		case in != nil:
			in.text += line + "\n"
		default:
			prose.WriteString(line)
		}
		prose.WriteByte('\n')
	}
	if in != nil {
		t.Errorf("%s: the block that begins on line %d has no end", path, in.line-1)
	}
	p.prose = prose.String()
	return p
}

// walk calls f for every file but what is built or belongs to git, with its path from the root.
func walk(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (rel == ".git" || rel == "bin" || rel == "dist" || rel == "config/samples/mine" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			f(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func lineAt(text string, offset int) int { return strings.Count(text[:offset], "\n") + 1 }
