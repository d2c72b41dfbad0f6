package logtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// sources parses the files that are in the operator's binary or may come to be, by package.
func sources(t *testing.T) map[string][]*ast.File {
	t.Helper()
	out := map[string][]*ast.File{}
	for _, top := range []string{"cmd/operator", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			out[filepath.Dir(path)] = append(out[filepath.Dir(path)], file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(out) < 20 {
		t.Fatalf("only %d packages", len(out))
	}
	return out
}

// constants are the integers that a package names.
func constants(files []*ast.File) map[string]int {
	out := map[string]int{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.ValueSpec); ok {
				for i, name := range s.Names {
					if i < len(s.Values) {
						if v, ok := integer(s.Values[i], nil); ok {
							out[name.Name] = v
						}
					}
				}
			}
			return true
		})
	}
	return out
}

func integer(e ast.Expr, named map[string]int) (v int, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		v, err := strconv.Atoi(e.Value)
		return v, err == nil
	case *ast.Ident:
		v, ok = named[e.Name]
	}
	return v, ok
}

func documentation(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "logs.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestEveryLevelIsDocumented: the code uses the levels of docs/logs.md, all of them and no others.
func TestEveryLevelIsDocumented(t *testing.T) {
	t.Parallel()
	documented, used := map[int]bool{}, map[int]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d) \| `).FindAllStringSubmatch(documentation(t), -1) {
		v, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		documented[v] = true
	}
	for dir, files := range sources(t) {
		named := constants(files)
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); !ok || s.Sel.Name != "V" {
					return true
				}
				v, ok := integer(call.Args[0], named)
				if used[v] = true; !ok || !documented[v] {
					t.Errorf("%s: V(%d), constant %t, is in no row of docs/logs.md", dir, v, ok)
				}
				return true
			})
		}
	}
	used[0] = true // Info without V
	for v := range documented {
		if !used[v] {
			t.Errorf("docs/logs.md has level %d, the code has not", v)
		}
	}
}

// TestWhatPeopleShouldKnowIsDocumented: every message that begins with WARNING, and every error's.
func TestWhatPeopleShouldKnowIsDocumented(t *testing.T) {
	t.Parallel()
	text, found := documentation(t), 0
	for dir, files := range sources(t) {
		if strings.Contains(dir, "forwardproxy") || strings.HasSuffix(dir, "test") {
			continue // not in the operator
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				s, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				said := ""
				switch {
				case s.Sel.Name == "Error" && len(call.Args) >= 2:
					said = beginning(call.Args[1])
				case s.Sel.Name == "Info" && len(call.Args) > 0 && strings.HasPrefix(beginning(call.Args[0]), "WARNING: "):
					said = beginning(call.Args[0])
				}
				if said == "" {
					return true
				}
				found++
				// Rows have the part before the first colon or parenthesis that follows.
				if part := strings.FieldsFunc(strings.TrimPrefix(said, "WARNING: "), func(c rune) bool { return strings.ContainsRune(":(;", c) }); len(part) > 0 {
					said = strings.TrimSpace(part[0])
				}
				if !strings.Contains(text, said) {
					t.Errorf("%s: docs/logs.md does not have %q", dir, said)
				}
				return true
			})
		}
	}
	if found < 10 {
		t.Errorf("only %d messages were found", found)
	}
}

// beginning is the literal text that an expression begins with.
func beginning(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return beginning(e.X)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	}
	return ""
}
