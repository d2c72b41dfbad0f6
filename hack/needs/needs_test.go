package needs

import (
	"os"
	"strings"
	"testing"
)

func TestMissingNamesProgramsAndPackagesOnce(t *testing.T) {
	wanted := []Need{{"a", "x"}, {"b", "x"}, {"c", "y"}, {"d", "z"}}
	there := func(program string) bool { return program == "d" }
	got := missing(wanted, "hack/some/install", there)
	if want := "missing: a, b, c; hack/some/install installs them (Debian: x, y)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := missing(wanted, "", func(string) bool { return true }); got != "" {
		t.Errorf("all there: got %q", got)
	}
}

func TestThereFindsProgramsAndFiles(t *testing.T) {
	file := t.TempDir() + "/data" // not a program
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"sh": true, file: true, "no-such-program": false, file + "x": false, t.TempDir(): false} {
		if got := there(name); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestRoomRefusesHiddenTemporaryFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		if got := Room(); !strings.Contains(got, "root") {
			t.Fatalf("not root: got %q", got)
		}
		return
	}
	t.Setenv("TMPDIR", "/var/lib/some/folder")
	if got := Room(); !strings.Contains(got, "TMPDIR") {
		t.Errorf("got %q, want it to say that TMPDIR would be hidden", got)
	}
}

func TestCompletePathAddsWhatIsNotThere(t *testing.T) {
	t.Setenv("PATH", "/bin:/usr/sbin")
	CompletePath()
	CompletePath()
	if got, want := os.Getenv("PATH"), "/bin:/usr/sbin:/usr/local/sbin:/sbin"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
