//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sweep removes what killed runs have left behind, and returns the names of these rooms. What is in use stays.
func (k Kind) Sweep() (swept []string, err error) {
	folders, err := k.sweepFolders(os.TempDir())
	cgroups, cgroupsErr := k.sweepCgroups(os.TempDir())
	return append(folders, cgroups...), errors.Join(err, cgroupsErr)
}

// sweepFolders removes rooms whose folder is in dir.
func (k Kind) sweepFolders(dir string) (swept []string, err error) {
	folders, err := filepath.Glob(filepath.Join(dir, k.prefix()+"*"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, folder := range folders {
		lock, err := tryLock(folder)
		if errors.Is(err, errLocked) || errors.Is(err, os.ErrNotExist) {
			continue // somebody's, or gone by now
		}
		r := &Room{Name: filepath.Base(folder), Dir: folder, lock: lock}
		if err == nil {
			err = r.Remove()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("removing what is left of %s: %w", r.Name, err))
			continue
		}
		swept = append(swept, r.Name)
	}
	return swept, errors.Join(errs...)
}

// sweepCgroups removes cgroups of rooms that have no folder in dir any more, because somebody emptied it. They have no
// lock, but a live room has processes.
func (k Kind) sweepCgroups(dir string) (swept []string, err error) {
	var errs []error
	for _, name := range k.strayCgroups() {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			continue
		}
		if err := removeCgroups(name); err != nil {
			errs = append(errs, err)
			continue
		}
		swept = append(swept, name)
	}
	return swept, errors.Join(errs...)
}

// strayCgroups returns the names of rooms that have cgroups and no process in any of them.
func (k Kind) strayCgroups() []string {
	var names []string
	alive := map[string]bool{}
	for _, h := range hierarchies() {
		entries, _ := os.ReadDir(h.path)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), k.prefix()) {
				continue
			}
			if !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
			alive[e.Name()] = alive[e.Name()] || h.populated(e.Name())
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return alive[name] })
}
