//go:build linux

package isolation

import (
	"errors"
	"os/exec"
	"testing"
)

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		script string
		want   int
	}{
		{"exit 0", 0},
		{"exit 7", 7},
		{"kill -TERM $$", 143},
	} {
		got, err := ExitCode(exec.Command("sh", "-c", c.script).Run())
		if err != nil || got != c.want {
			t.Errorf("%s: got %d, %v, want %d", c.script, got, err, c.want)
		}
	}
	notStarted := errors.New("no such file")
	if _, err := ExitCode(notStarted); !errors.Is(err, notStarted) {
		t.Errorf("a command that did not start: got %v, want its error", err)
	}
}
