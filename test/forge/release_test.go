package forge

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repository makes a clean repository with the script that releases, and a commit with the tag v1.2.3.
func repository(t *testing.T, changelog string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "hack"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "hack", "release"), []byte(read(t, "hack/release")), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "CHANGELOG.md"), []byte(changelog), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "x"}, {"tag", "v1.2.3"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	return dir
}

func TestWhatIsNoReleaseIsRefused(t *testing.T) {
	t.Parallel()
	const (
		changes = "# Changelog\n\n## [1.2.3] - 2026-01-02\n"
		date    = "2026-01-02T03:04:05Z"
	)
	for name, c := range map[string]struct {
		changelog, version, date, image string
		dirty                           bool
		says                            string // nothing where it is a release
	}{
		"a release":            {changelog: changes, version: "v1.2.3", date: date},
		"no version":           {changelog: changes, version: "1.2.3", date: date, says: "version '1.2.3'"},
		"a leading zero":       {changelog: changes, version: "v1.02.3", date: date, says: "version 'v1.02.3'"},
		"what a shell takes":   {changelog: changes, version: "v1.2.3 ; id", date: date, says: "version 'v1.2.3 ; id'"},
		"no date":              {changelog: changes, version: "v1.2.3", date: "yesterday", says: "date 'yesterday'"},
		"no image":             {changelog: changes, version: "v1.2.3", date: date, image: "a b", says: "IMAGE 'a b'"},
		"not the tag":          {changelog: changes, version: "v1.2.4", date: date, says: "the commit has no tag v1.2.4"},
		"part of a tag":        {changelog: changes, version: "v1.2.3-rc.1", date: date, says: "the commit has no tag v1.2.3-rc.1"},
		"changes on top":       {changelog: changes, version: "v1.2.3", date: date, dirty: true, says: "not committed"},
		"nothing said of it":   {changelog: "# Changelog\n\n## [Unreleased]\n", version: "v1.2.3", date: date, says: "no section '## [1.2.3]"},
		"said without a date":  {changelog: "# Changelog\n\n## [1.2.3]\n", version: "v1.2.3", date: date, says: "no section '## [1.2.3]"},
		"said of another dots": {changelog: "# Changelog\n\n## [1.2x3] - 2026-01-02\n", version: "v1.2.3", date: date, says: "no section '## [1.2.3]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := repository(t, c.changelog)
			if c.dirty {
				must(t, os.WriteFile(filepath.Join(dir, "more"), nil, 0o600))
			}
			cmd := exec.CommandContext(t.Context(), "hack/release", c.version, "abc", c.date)
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "IMAGE="+c.image, "SNAPSHOT=")
			out, err := cmd.CombinedOutput()
			// There are no sources here: it goes no further than to where it takes them.
			if said := string(out); err == nil || strings.HasPrefix(said, "release: ") != (c.says != "") || !strings.Contains(said, c.says) {
				t.Errorf("%v: %s, want %q", err, out, c.says)
			}
		})
	}
}
