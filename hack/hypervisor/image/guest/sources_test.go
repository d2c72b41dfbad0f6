package guest

import (
	"slices"
	"strings"
	"testing"
)

func TestSourcesAreThoseOfTheRelease(t *testing.T) {
	const targets = `Debian http://mirror/debian/ bookworm main
Debian http://mirror/debian/ bookworm main
Debian http://mirror/debian/ bookworm contrib
Debian http://mirror/debian/ bookworm-updates main
Debian http://mirror/debian/ trixie main
Node http://other/ bookworm main
 http://nobody/ bookworm main
`
	got, err := sourcesOf(targets, "[signed-by=/k] ")
	if err != nil {
		t.Fatal(err)
	}
	if want := "deb [signed-by=/k] http://mirror/debian/ bookworm main\ndeb [signed-by=/k] http://mirror/debian/ bookworm-updates main\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestNoSourcesAreAnError(t *testing.T) {
	for _, targets := range []string{"", "Ubuntu http://mirror/ubuntu/ noble main\n", "Debian http://mirror/debian/ bookworm-updates main\n"} {
		if got, err := sourcesOf(targets, ""); err == nil || !strings.Contains(err.Error(), "-mirror") {
			t.Errorf("%q: got %q, %v, want an error that says what to do", targets, got, err)
		}
	}
}

func TestAptOptionsAreThoseOfReachingAndChecking(t *testing.T) {
	const dump = `APT "";
APT::Architecture "amd64";
Acquire "";
Acquire::Check-Valid-Until "false";
Acquire::http "";
Acquire::http::Proxy "http://proxy:3128";
Acquire::Languages:: "none";
`
	want := []string{`--aptopt=Acquire::Check-Valid-Until "false"`, `--aptopt=Acquire::http::Proxy "http://proxy:3128"`}
	if got := aptOptionsOf(dump); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
