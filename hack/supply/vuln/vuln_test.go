package vuln_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/hack/supply/vuln"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// module is one that calls net/url.Parse and nothing else.
func module(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/it\n\ngo 1.26.0\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n\nimport \"net/url\"\n\nfunc main() { _, _ = url.Parse(\"\") }\n"), 0o600))
	return dir
}

// database holds one report, about a function of Go's net/url in all its versions.
func database(t *testing.T, function string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"index/db.json":      `{"modified":"2026-01-01T00:00:00Z"}`,
		"index/modules.json": `[{"path":"stdlib","vulns":[{"id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z"}]}]`,
		"ID/GO-2026-0001.json": `{"schema_version":"1.3.1","id":"GO-2026-0001","modified":"2026-01-01T00:00:00Z","published":"2026-01-01T00:00:00Z",` +
			`"summary":"A made-up fault in net/url","details":"Made up.","database_specific":{"url":"https://example.com/GO-2026-0001"},"affected":[{"package":{"name":"stdlib","ecosystem":"Go"},` +
			`"ranges":[{"type":"SEMVER","events":[{"introduced":"0"}]}],"ecosystem_specific":{"imports":[{"path":"net/url","symbols":["` + function + `"]}]}}]}`,
	} {
		file := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, []byte(text), 0o600))
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		_, err := w.Write([]byte(text))
		must(t, errors.Join(err, w.Close()))
		must(t, os.WriteFile(file+".gz", zipped.Bytes(), 0o600))
	}
	return dir
}

func TestWhatIsCalledIsLookedUp(t *testing.T) {
	it := module(t)
	for function, want := range map[string]error{"Parse": vuln.ErrFound, "PathUnescape": nil} {
		dir := database(t, function)
		served := httptest.NewServer(http.FileServer(http.Dir(dir)))
		t.Cleanup(served.Close)
		for _, at := range []string{"file://" + filepath.ToSlash(dir), served.URL} {
			var out bytes.Buffer
			if err := vuln.Check(t.Context(), at, it, &out, "./..."); !errors.Is(err, want) {
				t.Errorf("%s, %s: %v, want %v\n%s", function, at, err, want, out.String())
			}
			if named := strings.Contains(out.String(), "Vulnerability #1: GO-2026-0001"); named != (want != nil) {
				t.Errorf("%s, %s: it says\n%s", function, at, out.String())
			}
		}
	}
}

func TestWithoutADatabaseItSaysThatItHasNotRun(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	empty := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(empty.Close)
	for at, says := range map[string]string{
		gone.URL: "connection refused", empty.URL: "404 Not Found", "file:///does/not/exist": "no such file", "ftp://example.com": `scheme "ftp"`,
	} {
		err := vuln.Check(t.Context(), at, t.TempDir(), &bytes.Buffer{}, "./...")
		if !errors.Is(err, vuln.ErrNotRun) || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestHalfALookIsAFailure has a database that answers the first question alone.
func TestHalfALookIsAFailure(t *testing.T) {
	dir := database(t, "Parse")
	must(t, os.RemoveAll(filepath.Join(dir, "ID")))
	err := vuln.Check(t.Context(), "file://"+filepath.ToSlash(dir), module(t), &bytes.Buffer{}, "./...")
	if err == nil || errors.Is(err, vuln.ErrNotRun) || errors.Is(err, vuln.ErrFound) {
		t.Errorf("%v", err)
	}
	if err := vuln.Check(t.Context(), "file://"+filepath.ToSlash(database(t, "Parse")), t.TempDir(), &bytes.Buffer{}, "./..."); err == nil || errors.Is(err, vuln.ErrNotRun) {
		t.Errorf("no module to look at: %v", err)
	}
}
