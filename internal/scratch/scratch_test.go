package scratch_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/scratch"
)

const parentVariable = "SCRATCH_TEST_PARENT"

// TestMain is also the process that is killed: it writes a secret into its folder and waits.
func TestMain(m *testing.M) {
	parent := os.Getenv(parentVariable)
	if parent == "" {
		os.Exit(m.Run())
	}
	f, err := scratch.New(parent)
	if err == nil {
		err = os.WriteFile(filepath.Join(f.Path, "seed"), []byte("secret"), 0o600)
	}
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(os.Stdout, f.Path+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestWhatAKilledProcessLeaves(t *testing.T) {
	parent := t.TempDir()
	stranger := filepath.Join(parent, "egress-proxies-operator-notes")
	if err := os.Mkdir(stranger, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"="+parent)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	theirs := line[:len(line)-1]

	mine, err := scratch.New(parent)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(mine.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	if !exists(filepath.Join(theirs, "seed")) {
		t.Error("files of a process that lives were removed")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	next, err := scratch.New(parent)
	if err != nil {
		t.Fatal(err)
	}
	if exists(theirs) {
		t.Error("files of a process that was killed are still there")
	}
	if !exists(mine.Path) || !exists(stranger) {
		t.Error("more was removed than what the killed process left")
	}
	for _, f := range []*scratch.Folder{mine, next} {
		if err := f.Close(); err != nil || exists(f.Path) {
			t.Errorf("closed: %v, there: %v", err, exists(f.Path))
		}
	}
}

func TestNoFolder(t *testing.T) {
	if _, err := scratch.New(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("made a folder below one that is not there")
	}
}
