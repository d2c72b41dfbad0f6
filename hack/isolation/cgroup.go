//go:build linux

package isolation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A room's processes are in the cgroup <name>/host, so that <name> itself can have children with controllers, as version 2
// demands: the kubelet makes those of the Pods.
const hostCgroup = "host"

// MakeCgroups makes the room's cgroups in every hierarchy, just before Start: until then nothing shows that they are in use.
func (r *Room) MakeCgroups() error {
	hs := hierarchies()
	if len(hs) == 0 {
		return errors.New("no cgroup hierarchy is mounted")
	}
	for _, h := range hs {
		if err := h.create(r.Name); err != nil {
			return fmt.Errorf("cgroup hierarchy %s: %w", h.path, err)
		}
	}
	return nil
}

// joinCgroups moves the calling process, and so all that it will start, into the room's cgroups.
func joinCgroups(name string) error {
	for _, h := range hierarchies() {
		procs := filepath.Join(h.path, name, hostCgroup, "cgroup.procs")
		// 0 is the writer itself, whatever its number in which namespace.
		if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
			return fmt.Errorf("joining a cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroups removes the room's cgroups from every hierarchy. It waits a little for processes that are just ending.
func removeCgroups(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, h := range hierarchies() {
		dir := filepath.Join(h.path, name)
		var last error
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
			last = removeTree(dir)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("removing cgroup %s: %w", dir, last)
		}
	}
	return nil
}

// removeTree removes a cgroup and those below it, deepest first: only empty ones can be removed, and their files cannot.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(dirs)
	for _, d := range dirs {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// populated says whether a process is in the cgroup or below it.
func (h hierarchy) populated(name string) bool {
	found := false
	_ = filepath.WalkDir(filepath.Join(h.path, name), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "cgroup.procs" {
			data, _ := os.ReadFile(path)
			found = found || len(bytes.TrimSpace(data)) > 0
		}
		return nil
	})
	return found
}
