package shipped_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/shipped"
)

const (
	root   = "../../.."
	module = "github.com/egress-proxies/egress-proxies-operator"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestAProgramSaysWhichModulesAreInIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "egress-proxy")
	goCommand(t, root, "build", "-o", file, "./cmd/egress-proxy")
	p, err := shipped.Read(file)
	must(t, err)
	if p.Main != module || p.GOOS != runtime.GOOS || p.GOARCH != runtime.GOARCH || p.Cgo != "0" || "go"+p.Go != runtime.Version() {
		t.Errorf("%+v", p)
	}
	// What Go itself says of the file, module by module.
	var want []string
	for line := range strings.Lines(goCommand(t, root, "version", "-m", file)) {
		if f := strings.Fields(line); len(f) == 4 && f[0] == "dep" {
			want = append(want, strings.Join(f[1:], " "))
		}
	}
	var got []string
	for _, m := range p.Modules() {
		got = append(got, m.Path+" "+m.Version+" "+m.Sum)
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	papers, err := p.Sources(t.Context(), root)
	must(t, err)
	if len(papers) != len(want)+1 || papers[0].Path != shipped.Stdlib {
		t.Errorf("papers: %+v", papers)
	}
	for _, a := range papers {
		if len(a.Licences) == 0 {
			t.Errorf("%s: no licence found", a.Module)
		}
	}

	first := p.Modules()[0]
	for name, change := range map[string]func([]shipped.Module) []shipped.Module{
		"another version": func(m []shipped.Module) []shipped.Module { m[0].Version = "v0.0.1"; return m },
		"another module":  func(m []shipped.Module) []shipped.Module { m[0].Path = "example.com/other"; return m },
		"one module less": func(m []shipped.Module) []shipped.Module { return m[1:] },
		"one module more": func(m []shipped.Module) []shipped.Module {
			return append(m, shipped.Module{Path: "example.com/other", Version: "v1.0.0"})
		},
		"one version twice": func(m []shipped.Module) []shipped.Module {
			return append(m, shipped.Module{Path: first.Path, Version: "v0.0.1"})
		},
	} {
		other := *p
		other.Binaries = slices.Clone(p.Binaries)
		other.Binaries[0].Modules = change(slices.Clone(p.Binaries[0].Modules))
		if _, err := other.Sources(t.Context(), root); err == nil || !strings.Contains(err.Error(), "built from something else") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPartsOfOthersBringTheirOwnLicence takes a package of which everybody knows that it is a copy of another project's.
func TestPartsOfOthersBringTheirOwnLicence(t *testing.T) {
	const whole = "k8s.io/apimachinery"
	version := goCommand(t, root, "list", "-m", "-f", "{{.Version}}", whole)
	p := shipped.Programs{GOOS: "linux", GOARCH: "amd64", Cgo: "0", Binaries: []shipped.Binary{{
		Package: whole + "/third_party/forked/golang/reflect", Modules: []shipped.Module{{Path: whole, Version: version, Sum: "h1:"}},
	}}}
	papers, err := p.Sources(t.Context(), root)
	must(t, err)
	var found []string
	for _, l := range papers[1].Licences {
		dir := goCommand(t, root, "list", "-m", "-f", "{{.Dir}}", whole)
		rel, err := filepath.Rel(dir, l)
		must(t, err)
		found = append(found, filepath.ToSlash(rel))
	}
	if want := []string{"LICENSE", "third_party/forked/golang/LICENSE"}; !slices.Equal(found, want) {
		t.Errorf("got %q, want %q", found, want)
	}
}

func TestWhatNobodyElseCanLookAtIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module example.com/it\ngo 1.26.0\nrequire example.com/other v1.0.0\nreplace example.com/other => ./other\n")
	write("main.go", "package main\n\nimport _ \"example.com/other\"\n\nfunc main() {}\n")
	write("other/go.mod", "module example.com/other\ngo 1.26.0\n")
	write("other/other.go", "package other\n")
	goCommand(t, dir, "build", "-o", "it", ".")
	if _, err := shipped.Read(filepath.Join(dir, "it")); err == nil || !strings.Contains(err.Error(), "comes from a folder") {
		t.Errorf("a module from a folder: %v", err)
	}
	if _, err := shipped.Read(filepath.Join(dir, "main.go")); err == nil || !strings.Contains(err.Error(), "main.go") {
		t.Errorf("no program: %v", err)
	}
	if _, err := shipped.Read(); err == nil {
		t.Error("no programs at all pass")
	}
}

func TestProgramsForDifferentPlatformsDoNotGoTogether(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/it\ngo 1.26.0\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	goCommand(t, dir, "build", "-o", "one", ".")
	goCommand(t, dir, "build", "-tags", "other", "-o", "two", ".")
	if _, err := shipped.Read(filepath.Join(dir, "one"), filepath.Join(dir, "two")); err == nil || !strings.Contains(err.Error(), "built differently") {
		t.Errorf("%v", err)
	}
}
