package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

func supply(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	err = run(t.Context(), args, &b)
	return b.String(), err
}

func TestFromAProgramToItsPapers(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "egress-proxy")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/egress-proxy")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := supply(t, "licences", program)
	if err != nil || !strings.Contains(out, "github.com/go-logr/logr") || !strings.Contains(out, "Apache-2.0") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := supply(t, "describe", "-o", dir, "-version", "v1", "-file", "/a="+program, program); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if notices, err := os.ReadFile(filepath.Join(dir, "THIRD-PARTY-NOTICES")); err != nil || !strings.Contains(string(notices), "github.com/go-logr/logr v") {
		t.Errorf("notices: %v\n%.200s", err, notices)
	}
	bill := filepath.Join(dir, "sbom.cdx.json")
	if out, err := supply(t, "verify", "-sbom", bill, program); err != nil || !strings.Contains(out, "of 1 programs") {
		t.Errorf("%v\n%s", err, out)
	}
	// One byte more, and it is another program.
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, append(data, 0), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := supply(t, "verify", "-sbom", bill, program); err == nil || !strings.Contains(err.Error(), "program egress-proxy") {
		t.Errorf("another program: %v\n%s", err, out)
	}
}

func TestNotRunIsAFailureOnlyWhereItIsRequired(t *testing.T) {
	const nowhere = "file:///does/not/exist"
	if out, err := supply(t, "vulncheck", "-db", nowhere, "./..."); err != nil || !strings.HasPrefix(out, "vulncheck: not run: ") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := supply(t, "vulncheck", "-required", "-db", nowhere, "./..."); err == nil || !strings.Contains(err.Error(), "not run") {
		t.Errorf("required: %v", err)
	}
	t.Setenv("GOVULNDB", "file:///somewhere/else")
	if out, err := supply(t, "vulncheck", "./..."); err != nil || !strings.Contains(out, "file:///somewhere/else") {
		t.Errorf("GOVULNDB: %v\n%s", err, out)
	}
}

func TestWrongUsageIsToldApart(t *testing.T) {
	for _, args := range [][]string{nil, {"books"}, {"describe"}, {"describe", "-o", t.TempDir()}, {"describe", "-file", "x"}, {"verify"}, {"licences", "-nonsense"}} {
		if out, err := supply(t, args...); err == nil {
			t.Errorf("%q passes: %s", args, out)
		}
	}
}
