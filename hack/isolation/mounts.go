//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// View says which folders of the host the namespaces see replaced.
type View struct {
	// Cgroups says that processes join the cgroups of MakeCgroups. Otherwise they see none, and can make none that would
	// outlive them.
	Cgroups bool
	// Tunables are kernel settings, by their path in /proc/sys, that seem to have these values; what is written to them
	// changes nothing.
	Tunables map[string]string
	// Empty folders, in memory.
	Empty []string
	// Private maps a folder to the one that is seen in its place, which is made when it is missing. Where the host has no
	// such folder, the parent stays as it is, although something is added to it: it is replaced by links to all that is in it.
	Private map[string]string
}

// Enter makes the calling process, the first of new namespaces, at home in the room: cgroups, mounts of which the host
// sees nothing, a /proc of its own and the host's name.
func Enter(dir string, v View) error {
	name := filepath.Base(dir)
	if v.Cgroups {
		if err := joinCgroups(name); err != nil {
			return err
		}
	}
	// First no mount may reach the host any more; then kubelet and runc want mounts to reach into their containers.
	for _, propagation := range []uintptr{unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("changing the propagation of mounts: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if !v.Cgroups {
		if err := ownSys(); err != nil {
			return err
		}
	}
	if err := pretendTunables(filepath.Join(dir, "sysctl"), v.Tunables); err != nil {
		return err
	}
	for _, folder := range v.Empty {
		if err := mountEmpty(folder); err != nil {
			return err
		}
	}
	if err := mountPrivate(filepath.Join(dir, "host"), v.Private); err != nil {
		return err
	}
	return unix.Sethostname([]byte(name))
}

// mountPrivate shows each folder's replacement. What the parents hold on the host is kept visible below aside.
func mountPrivate(aside string, private map[string]string) error {
	folders := slices.Sorted(maps.Keys(private)) // those inside of others after these
	done := map[string]bool{}
	for _, folder := range folders {
		parent := filepath.Dir(folder)
		_, inside := private[parent]
		if info, err := os.Lstat(folder); done[parent] || inside || err == nil && info.IsDir() {
			continue
		}
		done[parent] = true
		if err := relink(parent, filepath.Join(aside, parent), private); err != nil {
			return err
		}
	}
	for _, folder := range folders {
		source := private[folder]
		if err := errors.Join(os.MkdirAll(source, 0o755), mkdir(folder)); err != nil {
			return err
		}
		if err := Bind(source, folder); err != nil {
			return err
		}
	}
	return nil
}

// relink makes the parent an empty folder with links to all that was in it, except to what is private.
func relink(parent, aside string, private map[string]string) error {
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return err
	}
	if err := Bind(parent, aside); err != nil {
		return err
	}
	if err := mountEmpty(parent); err != nil {
		return err
	}
	entries, err := os.ReadDir(aside)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(parent, e.Name())
		if _, replaced := private[path]; replaced {
			continue
		}
		if err := os.Symlink(filepath.Join(aside, e.Name()), path); err != nil {
			return err
		}
	}
	return nil
}

// ownSys shows the interfaces of this network namespace, and no cgroups: those are mounted below the host's /sys.
func ownSys() error {
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the host's /sys: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /sys: %w", err)
	}
	return nil
}

func mountEmpty(folder string) error {
	if err := unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return fmt.Errorf("mounting an empty %s: %w", folder, err)
	}
	return nil
}

// Bind shows source, a folder or a file, at target too.
func Bind(source, target string) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("binding %s to %s: %w", source, target, err)
	}
	return nil
}
