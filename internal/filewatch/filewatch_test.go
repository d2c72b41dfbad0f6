package filewatch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/filewatch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 1000

// told is one call of Changed.
type told struct {
	text string
	err  error
}

// rig watches dir/file.
type rig struct {
	t    *testing.T
	path string
	told chan told
}

// watch starts a watcher of a file in dir that holds known, if it is not "".
func watch(t *testing.T, dir, known string, change ...func(*filewatch.Watcher)) *rig {
	t.Helper()
	x := &rig{t: t, path: filepath.Join(dir, "file"), told: make(chan told, 100)}
	if known != "" {
		x.write(known)
	}
	w := &filewatch.Watcher{
		Path: x.path, Limit: limit, Clock: clock.RealClock{}, Interval: 50 * time.Millisecond, Known: []byte(known),
		Changed: func(data []byte, err error) { x.told <- told{string(data), err} },
	}
	for _, f := range change {
		f(w)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	t.Cleanup(func() { // the test's context has ended
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return x
}

func (x *rig) write(text string) {
	x.t.Helper()
	if err := os.WriteFile(x.path, []byte(text), 0o600); err != nil {
		x.t.Fatal(err)
	}
}

func (x *rig) next() told {
	x.t.Helper()
	select {
	case got := <-x.told:
		return got
	case <-time.After(20 * time.Second):
		x.t.Fatal("nothing is told")
		return told{}
	}
}

// wants expects that text is told next. Written in place a file is empty for a moment, which may be seen.
func (x *rig) wants(text string) {
	x.t.Helper()
	got := x.next()
	for got.err == nil && got.text == "" {
		got = x.next()
	}
	if got.err != nil || got.text != text {
		x.t.Fatalf("told %q, %v; want %q", got.text, got.err, text)
	}
}

func (x *rig) fails(check func(error) bool) {
	x.t.Helper()
	if got := x.next(); got.err == nil || !check(got.err) {
		x.t.Fatalf("told %q, %v", got.text, got.err)
	}
}

func (x *rig) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func rare(w *filewatch.Watcher) { w.Interval = time.Hour }

func TestWrittenInPlaceAndReplaced(t *testing.T) {
	t.Parallel()
	x := watch(t, t.TempDir(), "a", rare)
	x.write("b")
	x.wants("b")
	next := x.path + ".new"
	x.must(os.WriteFile(next, []byte("c"), 0o600))
	x.must(os.Rename(next, x.path))
	x.wants("c")
}

// TestTheKubeletsDance: the file is a symlink through a symlink to a folder, and the latter is exchanged.
func TestTheKubeletsDance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		folder := "..2026_" + version
		for _, err := range []error{
			os.Mkdir(filepath.Join(dir, folder), 0o700),
			os.WriteFile(filepath.Join(dir, folder, "file"), []byte(text), 0o600),
			os.Symlink(folder, filepath.Join(dir, "..data_tmp")),
			os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	publish("1", "a")
	if err := os.Symlink("..data/file", filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	x := watch(t, dir, "", rare, func(w *filewatch.Watcher) { w.Known = []byte("a") })
	publish("2", "b")
	x.must(os.RemoveAll(filepath.Join(dir, "..2026_1")))
	x.wants("b")
	publish("3", "c")
	x.must(os.RemoveAll(filepath.Join(dir, "..2026_2")))
	x.wants("c")
}

func TestAFileThatCannotBeReadIsToldOnceAndItsReturnToo(t *testing.T) {
	t.Parallel()
	x := watch(t, t.TempDir(), "a", rare)
	x.must(os.Remove(x.path))
	x.fails(func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	x.must(os.Mkdir(x.path, 0o700))
	x.fails(func(err error) bool { return strings.Contains(err.Error(), "not a regular file") })
	x.must(os.Remove(x.path))
	x.fails(func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	x.must(unix.Mkfifo(x.path, 0o600)) // it would block whoever waits for a writer
	x.fails(func(err error) bool { return strings.Contains(err.Error(), "not a regular file") })
	x.must(os.Remove(x.path))
	x.fails(func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	next := x.path + ".new"
	x.must(os.WriteFile(next, []byte(strings.Repeat("x", limit+1)), 0o600))
	x.must(os.Rename(next, x.path))
	x.fails(func(err error) bool { return strings.Contains(err.Error(), "larger than 1000 bytes") })
	x.must(os.WriteFile(next, []byte("a"), 0o600))
	x.must(os.Rename(next, x.path))
	x.wants("a") // as it was before, and yet news
}

func TestWithoutNoticesItLooksAtEveryInterval(t *testing.T) {
	t.Parallel()
	// The file is a symlink into another folder, of which nothing is told.
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "target")
	if err := errors.Join(os.WriteFile(other, []byte("a"), 0o600), os.Symlink(other, filepath.Join(dir, "file"))); err != nil {
		t.Fatal(err)
	}
	x := watch(t, dir, "", func(w *filewatch.Watcher) { w.Known = []byte("a") })
	x.write("b")
	x.wants("b")
}

func TestAFolderMayComeLaterAndGo(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "folder")
	x := watch(t, dir, "")
	missing := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	x.fails(missing)
	for i := range 3 {
		x.must(os.Mkdir(dir, 0o700))
		x.write(fmt.Sprint("a", i))
		x.wants(fmt.Sprint("a", i))
		x.must(os.RemoveAll(dir))
		x.fails(missing)
	}
}

// TestNoticesComeFromAFolderThatCameLater: after the look that finds it, no more is needed.
func TestNoticesComeFromAFolderThatCameLater(t *testing.T) {
	t.Parallel()
	dir, c := filepath.Join(t.TempDir(), "folder"), clocktesting.NewFakeClock(time.Unix(1000, 0))
	x := watch(t, dir, "", func(w *filewatch.Watcher) { w.Interval, w.Clock = time.Minute, c })
	missing := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	x.fails(missing)
	x.must(os.Mkdir(dir, 0o700))
	x.write("a")
	c.Step(time.Minute)
	x.wants("a")
	x.write("b")
	x.wants("b")
}

func TestWhatHasSettledIsTold(t *testing.T) {
	t.Parallel()
	x := watch(t, t.TempDir(), "a", rare, func(w *filewatch.Watcher) { w.Settle = 100 * time.Millisecond })
	x.write("b")
	x.wants("b")
	x.must(os.Remove(x.path))
	x.fails(func(err error) bool { return errors.Is(err, fs.ErrNotExist) })
	x.write("b")
	x.wants("b")
}
