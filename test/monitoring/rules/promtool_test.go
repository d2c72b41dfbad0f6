package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// promtool runs it in a folder.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("REQUIRE_PROMTOOL") == "1" {
			t.Fatal("REQUIRE_PROMTOOL is 1, and there is no promtool: ", err)
		}
		t.Skip("there is no promtool; on Debian and Ubuntu `hack/install monitoring` installs it")
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, said)
	}
}

func TestPrometheusAcceptsTheRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := []string{"check", "rules"}
	for _, f := range load(t) {
		f.write(t, dir)
		args = append(args, f.name)
	}
	promtool(t, dir, args...)
}

// TestAlertsFireOnTheirSymptomAlone runs testdata. What the alerts say is left out there: it is wanted word for word, and is
// no part of when they fire.
func TestAlertsFireOnTheirSymptomAlone(t *testing.T) {
	t.Parallel()
	for _, path := range glob(t, "testdata", "*.yaml") {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.Mkdir(filepath.Join(dir, "rules"), 0o700))
			for _, f := range load(t) {
				for _, g := range f.groups {
					for i := range g.Rules {
						g.Rules[i].Annotations = nil
					}
				}
				f.write(t, filepath.Join(dir, "rules"))
			}
			must(t, os.WriteFile(filepath.Join(dir, name), read(t, path), 0o600))
			promtool(t, dir, "test", "rules", name)
		})
	}
}
