package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMissingNamesProgramsAndPackagesOnce(t *testing.T) {
	wanted := []need{{"a", "x"}, {"b", "x"}, {"c", "y"}, {"d", "z"}}
	there := func(program string) bool { return program == "d" }
	got := missing(wanted, there)
	if want := "missing: a, b, c; hack/cluster/install installs them (Debian: x, y)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := missing(wanted, func(string) bool { return true }); got != "" {
		t.Errorf("all there: got %q", got)
	}
}

// TestInstallKnowsEveryNeed keeps the script and the check together.
func TestInstallKnowsEveryNeed(t *testing.T) {
	script, err := os.ReadFile("install")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range needs {
		found := false
		for line := range strings.Lines(string(script)) {
			line = strings.NewReplacer("{", " ", "}", " ", ",", " ", "/usr/lib/cni/", " ").Replace(line)
			fields := strings.Fields(line)
			found = found || len(fields) > 2 && fields[0] == "need" && fields[1] == n.pkg && slices.Contains(fields[2:], filepath.Base(n.program))
		}
		if !found {
			t.Errorf("the script install does not look for %s of package %s", n.program, n.pkg)
		}
	}
}

func TestUnmetRefusesHiddenTemporaryFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		if got := unmet(); !strings.Contains(got, "root") {
			t.Fatalf("not root: got %q", got)
		}
		return
	}
	t.Setenv("TMPDIR", "/var/lib/some/folder")
	if got := unmet(); !strings.Contains(got, "TMPDIR") {
		t.Errorf("got %q, want it to say that TMPDIR would be hidden", got)
	}
}

func TestCompletePathAddsWhatIsNotThere(t *testing.T) {
	t.Setenv("PATH", "/bin:/usr/sbin")
	completePath()
	completePath()
	if got, want := os.Getenv("PATH"), "/bin:/usr/sbin:/usr/local/sbin:/sbin"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
