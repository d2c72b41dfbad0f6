//go:build linux

package isolation

import (
	"errors"
	"os"
	"path/filepath"
)

// pretendTunables shows files of dir in their place: who looks finds what it wants, and what it writes changes
// nothing. They are on a filesystem of their own, or a kubelet would take these places for where the one of the room is mounted.
func pretendTunables(dir string, tunables map[string]string) error {
	if len(tunables) == 0 {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := mountEmpty(dir); err != nil {
		return err
	}
	for name, value := range tunables {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		target := filepath.Join("/proc/sys", name)
		if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
			continue // a kernel without it
		}
		if err := Bind(file, target); err != nil {
			return err
		}
	}
	return nil
}
