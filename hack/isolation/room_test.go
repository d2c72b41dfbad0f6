//go:build linux

package isolation

import (
	"errors"
	"os"
	"slices"
	"testing"
)

func TestSweepTakesWhatNobodyHolds(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	const kind = Kind("test")
	held, err := kind.New()
	if err != nil {
		t.Fatal(err)
	}
	killed, err := kind.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.lock.Close(); err != nil { // as the end of a process does
		t.Fatal(err)
	}
	swept, err := kind.sweepFolders(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(swept, []string{killed.Name}) {
		t.Errorf("swept %v, want %s alone", swept, killed.Name)
	}
	if _, err := os.Stat(killed.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", killed.Dir, err)
	}
	if _, err := os.Stat(held.Dir); err != nil {
		t.Error(err)
	}
	if err := held.Remove(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestALockOfARemovedFolderIsNone(t *testing.T) {
	dir := t.TempDir()
	first, err := tryLock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryLock(dir); !errors.Is(err, errLocked) {
		t.Errorf("a second lock: got %v, want %v", err, errLocked)
	}
	// The holder removes the folder and lets go, and somebody else has made the same one by then.
	if err := os.Remove(first.Name()); err != nil {
		t.Fatal(err)
	}
	second, err := tryLock(dir)
	if err != nil {
		t.Errorf("a new folder of the same name: %v", err)
	}
	for _, f := range []*os.File{first, second} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := tryLock(dir + "/gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is gone: got %v, want %v", err, os.ErrNotExist)
	}
}
