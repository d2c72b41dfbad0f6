//go:build linux

package isolation

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseHierarchies(t *testing.T) {
	const mountinfo = `24 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:5 master:1 - cgroup2 cgroup2 rw,nsdelegate
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 24 0:28 / /home/someone/cgroup rw - cgroup cgroup rw,cpu,cpuacct
34 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
truncated line
`
	want := []hierarchy{{"/sys/fs/cgroup/unified", true}, {"/sys/fs/cgroup/cpu,cpuacct", false}}
	if got := parseHierarchies(mountinfo); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	pure := "31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
	if got, want := parseHierarchies(pure), []hierarchy{{"/sys/fs/cgroup", true}}; !slices.Equal(got, want) {
		t.Errorf("version 2 alone: got %v, want %v", got, want)
	}
}

// write makes a file as the kernel would show it.
func write(t *testing.T, content string, elem ...string) {
	t.Helper()
	file := filepath.Join(elem...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestANewCpusetInheritsCPUs(t *testing.T) {
	root := t.TempDir()
	write(t, "0-3\n", root, "cpuset.cpus")
	write(t, "0\n", root, "cpuset.mems")
	if err := (hierarchy{path: root}).create("room"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"room", "room/" + hostCgroup} {
		if cpus, mems := read(t, root, dir, "cpuset.cpus"), read(t, root, dir, "cpuset.mems"); cpus != "0-3\n" || mems != "0\n" {
			t.Errorf("%s has CPUs %q and memory %q, want those of the root", dir, cpus, mems)
		}
	}
}

func TestOtherHierarchiesGetNoCPUs(t *testing.T) {
	root := t.TempDir()
	if err := (hierarchy{path: root}).create("room"); err != nil {
		t.Fatal(err)
	}
	if entries, _ := os.ReadDir(filepath.Join(root, "room")); len(entries) != 1 {
		t.Errorf("the room has %v, want its cgroup %s alone", entries, hostCgroup)
	}
}

func TestDelegateEnablesWhatIsMissing(t *testing.T) {
	root := t.TempDir()
	write(t, "cpu memory pids\n", root, "cgroup.controllers")
	write(t, "memory cpu\n", root, "cgroup.subtree_control")
	if err := delegate(root); err != nil {
		t.Fatal(err)
	}
	if got := read(t, root, "cgroup.subtree_control"); got != "+pids" {
		t.Errorf("written was %q, want +pids alone", got)
	}
	write(t, "cpu memory pids\n", root, "cgroup.subtree_control")
	if err := delegate(root); err != nil {
		t.Fatal(err)
	}
	if got := read(t, root, "cgroup.subtree_control"); strings.Contains(got, "+") {
		t.Errorf("written was %q although all were enabled", got)
	}
}

func TestRemoveTreeGoesDeepestFirst(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "room")
	if err := os.MkdirAll(filepath.Join(dir, "kubepods", "burstable", "pod1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if err := removeTree(dir); err != nil {
		t.Errorf("what is gone: %v", err)
	}
}

func TestPopulatedLooksBelow(t *testing.T) {
	h := hierarchy{path: t.TempDir()}
	write(t, "", h.path, "room", "cgroup.procs")
	write(t, "\n", h.path, "room", "kubepods", "cgroup.procs")
	if h.populated("room") {
		t.Error("populated without a process")
	}
	write(t, "4711\n", h.path, "room", "kubepods", "pod1", "cgroup.procs")
	if !h.populated("room") {
		t.Error("not populated although a process is below")
	}
}
