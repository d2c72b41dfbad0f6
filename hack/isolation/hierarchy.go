//go:build linux

package isolation

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hierarchy is one mounted cgroup hierarchy: one for each controller in version 1, one for all in version 2.
type hierarchy struct {
	path string
	v2   bool
}

// hierarchies returns those mounted on this host.
func hierarchies() []hierarchy {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	return parseHierarchies(string(data))
}

// parseHierarchies reads /proc/self/mountinfo.
func parseHierarchies(mountinfo string) []hierarchy {
	var hs []hierarchy
	for line := range strings.Lines(mountinfo) {
		// 36 35 98:0 /root /mount/point options optional… - type source options
		before, after, ok := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			continue
		}
		kind, _, _ := strings.Cut(after, " ")
		h := hierarchy{path: fields[4], v2: kind == "cgroup2"}
		// The same hierarchy may be mounted a second time, inside of somebody's folder.
		if (kind == "cgroup" || h.v2) && strings.HasPrefix(h.path, "/sys/fs/cgroup") && !slices.Contains(hs, h) {
			hs = append(hs, h)
		}
	}
	return hs
}

// create makes the room's cgroups in this hierarchy.
func (h hierarchy) create(name string) error {
	dir := filepath.Join(h.path, name)
	if h.v2 {
		if err := delegate(h.path); err != nil {
			return err
		}
	}
	if err := mkdir(dir); err != nil {
		return err
	}
	if h.v2 {
		if err := delegate(dir); err != nil {
			return err
		}
	}
	if err := inheritCPUs(dir); err != nil {
		return err
	}
	if err := mkdir(filepath.Join(dir, hostCgroup)); err != nil {
		return err
	}
	return inheritCPUs(filepath.Join(dir, hostCgroup))
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// inheritCPUs copies the parent's CPUs and memory nodes: in version 1 a new cpuset has none and takes no process. In any
// other hierarchy it does nothing.
func inheritCPUs(dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		inherited, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(inherited)) == 0 {
			continue // version 2: empty means that it inherits by itself
		}
		if err := os.WriteFile(filepath.Join(dir, file), inherited, 0); err != nil {
			return err
		}
	}
	return nil
}

// delegate gives children of a version 2 cgroup every controller that it has itself.
func delegate(dir string) error {
	available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for _, controller := range strings.Fields(string(available)) {
		if slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		err := os.WriteFile(file, []byte("+"+controller), 0)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s has processes of its own, so no cgroup below it gets a controller (in a container, run it with the host's cgroup namespace)", dir)
		}
		if err != nil {
			return fmt.Errorf("enabling %s in %s: %w", controller, file, err)
		}
	}
	return nil
}
