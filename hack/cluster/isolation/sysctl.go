//go:build linux

package isolation

import (
	"errors"
	"os"
	"path/filepath"
)

// tunables are the kernel settings that a kubelet changes where they differ. They belong to the whole host: no namespace
// holds them back. (setupKernelTunables in k8s.io/kubernetes/pkg/kubelet/cm.)
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// pretendTunables shows files of dir in their place: the kubelet finds what it wants, and what it writes changes nothing.
// They are on a filesystem of their own, or it would take these places for where the one of the room is mounted.
func pretendTunables(dir string) error {
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
