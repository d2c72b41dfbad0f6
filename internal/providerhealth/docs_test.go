package providerhealth_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	root = "../.."
	page = root + "/docs/provider-health.md"
)

// constants returns the values of string constants in the files that match, by name, where wanted says so.
func constants(t *testing.T, pattern string, wanted func(name, typ string) bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	must(t, err)
	out := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				typ, _ := v.Type.(*ast.Ident)
				for i, name := range v.Names {
					if i >= len(v.Values) || !wanted(name.Name, typename(typ)) {
						continue
					}
					if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						value, err := strconv.Unquote(lit.Value)
						must(t, err)
						out[name.Name] = value
					}
				}
			}
		}
	}
	return out
}

func typename(t *ast.Ident) string {
	if t == nil {
		return ""
	}
	return t.Name
}

// TestEveryReasonIsOnThePage: whoever sees a reason looks for its cure.
func TestEveryReasonIsOnThePage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(page)
	must(t, err)
	text := string(data)
	prefix := func(p string) func(string, string) bool {
		return func(name, _ string) bool { return strings.HasPrefix(name, p) }
	}
	for _, source := range []struct {
		pattern string
		wanted  func(name, typ string) bool
		least   int
	}{
		{"internal/provider/check.go", prefix("Check"), 6},
		{"internal/provider/local/*.go", prefix("Check"), 7},
		{"internal/provider/kvm/*.go", prefix("Check"), 4},
		{"internal/provider/kvm/dial/errors.go", func(name, _ string) bool { return ast.IsExported(name) }, 10},
		{"internal/provider/gcp/*.go", prefix("Check"), 0},
		{"internal/provider/kubernetes/*.go", prefix("Check"), 0},
		{"internal/provider/registry/*.go", func(_, typ string) bool { return typ == "Why" }, 3},
		{"api/v1alpha1/providerhealth_names.go", prefix("Reason"), 8},
		{"internal/providerhealth/*.go", prefix("Event"), 9},
	} {
		found := constants(t, source.pattern, source.wanted)
		if len(found) < source.least {
			t.Errorf("%s has %d reasons, want at least %d: the test has to follow the code", source.pattern, len(found), source.least)
		}
		for name, reason := range found {
			if !strings.Contains(text, "`"+reason+"`") {
				t.Errorf("%s (%s in %s) is not on %s", reason, name, source.pattern, page)
			}
		}
	}
}

// TestEveryProviderTypeIsOnThePage: a new one has reasons, too.
func TestEveryProviderTypeIsOnThePage(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(page)
	must(t, err)
	must(t, filepath.WalkDir(root+"/internal/provider", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "providertest") {
			return err
		}
		for _, typ := range constants(t, strings.TrimPrefix(path, root+"/"), func(name, _ string) bool { return name == "Type" }) {
			if !strings.Contains(string(data), "`"+typ+"`") {
				t.Errorf("%s is not on the page", typ)
			}
		}
		return nil
	}))
}
