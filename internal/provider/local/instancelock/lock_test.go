//go:build linux || darwin

package instancelock_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// helperPath makes the test binary, run again, the other process: POSIX locks
// never conflict within one.
const helperPath = "INSTANCELOCK_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperPath); path != "" {
		os.Exit(holdUntilStdinCloses(path))
	}
	goleak.VerifyTestMain(m)
}

func holdUntilStdinCloses(path string) int {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = instancelock.Hold(f, path)
	}
	switch {
	case errors.Is(err, instancelock.ErrHeld):
		fmt.Println("held")
		return 0
	case err != nil:
		fmt.Println(err)
		return 1
	}
	fmt.Println("ok")
	_, _ = io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(f)
	return 0
}

type holder struct {
	cmd   *exec.Cmd
	stdin io.Closer
	first string
}

// startHolder runs the helper and returns after its first line.
func startHolder(t *testing.T, path string) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperPath+"="+path)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	h := &holder{cmd: cmd, stdin: stdin, first: strings.TrimSpace(line)}
	t.Cleanup(h.kill)
	return h
}

func (h *holder) kill() {
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
}

func TestHolderNamesTheProcessAndForgetsItWhenKilled(t *testing.T) {
	path, f := stateFile(t)
	if _, held, err := instancelock.Holder(f); held || err != nil {
		t.Fatalf("before anyone holds it: held=%t err=%v", held, err)
	}
	h := startHolder(t, path)
	if h.first != "ok" {
		t.Fatalf("helper said %q", h.first)
	}
	pid, held, err := instancelock.Holder(f)
	must(t, err)
	if !held || pid != h.cmd.Process.Pid {
		t.Fatalf("got pid %d held %t, want %d", pid, held, h.cmd.Process.Pid)
	}
	if second := startHolder(t, path); second.first != "held" {
		t.Fatalf("a second process said %q", second.first)
	}
	if _, err := instancelock.TryTake(f); !errors.Is(err, instancelock.ErrHeld) {
		t.Fatalf("TryTake against a live process: %v", err)
	}
	if err := instancelock.Hold(f, path); !errors.Is(err, instancelock.ErrHeld) {
		t.Fatalf("Hold against a live process: %v", err)
	}
	h.kill()
	if _, held, err := instancelock.Holder(f); held || err != nil {
		t.Fatalf("after kill: held=%t err=%v", held, err)
	}
}

func TestDeleterKeepsAStartingProcessOut(t *testing.T) {
	path, f := stateFile(t)
	release, err := instancelock.TryTake(f)
	must(t, err)
	if h := startHolder(t, path); h.first != "held" {
		t.Fatalf("helper said %q while a deleter had the lock", h.first)
	}
	must(t, release())
	if h := startHolder(t, path); h.first != "ok" {
		t.Fatalf("helper said %q after the release", h.first)
	}
}

func TestDeleterOnLinuxSurvivesOtherDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs open-file-description locks")
	}
	path, f := stateFile(t)
	release, err := instancelock.TryTake(f)
	must(t, err)
	other, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	if _, err := instancelock.TryTake(other); !errors.Is(err, instancelock.ErrHeld) {
		t.Errorf("a second deleter in the same process: %v", err)
	}
	if pid, held, err := instancelock.Holder(other); pid != -1 || !held || err != nil {
		t.Errorf("Holder of a deletion: pid %d held %t err %v", pid, held, err)
	}
	must(t, other.Close())
	if h := startHolder(t, path); h.first != "held" {
		t.Errorf("closing another descriptor dropped the deleter's lock: helper said %q", h.first)
	}
	must(t, release())
}

func TestHoldRefusesAFileThatIsNoLongerThePath(t *testing.T) {
	cases := []struct {
		name, reason string
		change       func(t *testing.T, path string)
	}{
		{"removed", "the record was deleted before the lock", func(t *testing.T, path string) {
			must(t, os.Remove(path))
		}},
		{"replaced", "another record has the path", func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", nil, 0o600))
			must(t, os.Rename(path+".new", path))
		}},
		{"parent gone", "the whole directory was deleted", func(t *testing.T, path string) {
			must(t, os.RemoveAll(filepath.Dir(path)))
		}},
		{"parent is a file", "ENOTDIR is absence too", func(t *testing.T, path string) {
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.WriteFile(filepath.Dir(path), nil, 0o600))
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			path, f := stateFile(t)
			tc.change(t, path)
			if err := instancelock.Hold(f, path); !errors.Is(err, instancelock.ErrReplaced) {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
		})
	}
}

func TestHoldNeedsAWritableDescriptor(t *testing.T) {
	path, _ := stateFile(t)
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	err = instancelock.Hold(f, path)
	if err == nil || errors.Is(err, instancelock.ErrHeld) || errors.Is(err, instancelock.ErrReplaced) {
		t.Fatalf("got %v, want the system's error", err)
	}
}

func TestStartTime(t *testing.T) {
	own, err := instancelock.StartTime(os.Getpid())
	must(t, err)
	again, err := instancelock.StartTime(os.Getpid())
	must(t, err)
	if own == "" || own != again {
		t.Fatalf("own start time changed: %q, %q", own, again)
	}
	path, _ := stateFile(t)
	h := startHolder(t, path)
	pid := h.cmd.Process.Pid
	if other, err := instancelock.StartTime(pid); err != nil || other == "" {
		t.Fatalf("child: %q, %v", other, err)
	}
	h.kill()
	if _, err := instancelock.StartTime(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("after its end: %v", err)
	}
}

func stateFile(t *testing.T) (string, *os.File) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "instances")
	must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "one.json")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return path, f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
