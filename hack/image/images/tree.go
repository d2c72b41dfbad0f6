package images

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/hack/image/layer"
)

// maxLinks is how many symbolic links one path may lead through; the kernel has the same limit.
const maxLinks = 40

// tree is a part of this host's file system, by path. Every file is at its real place, and every link on the way to it is
// there, too: /lib is a link to usr/lib on some hosts.
type tree map[string]layer.Entry

func (t tree) entries() []layer.Entry { return slices.Collect(maps.Values(t)) }

// add takes in a file, or a folder with everything below it, and what links on the way lead through.
func (t tree) add(name string) error {
	at, links := "/", 0
	rest := parts(name)
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		info, err := os.Lstat(next)
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return fmt.Errorf("%s leads through more than %d links", name, maxLinks)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		t[next] = layer.Symlink(next, target)
		if filepath.IsAbs(target) {
			at = "/"
		}
		// From the top again: the target may lead through links itself, and out of the folder with "..".
		at, rest = "/", append(parts(filepath.Join(at, target)), rest...)
	}
	info, err := os.Lstat(at)
	if err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		t[at] = layer.Copy(at, info.Mode().Perm(), at)
		return nil
	case !info.IsDir():
		return fmt.Errorf("%s is neither file nor folder", at)
	}
	if _, ok := t[at]; ok {
		return nil // a link below leads up again
	}
	t[at] = layer.Dir(at, info.Mode().Perm())
	children, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := t.add(filepath.Join(at, c.Name())); err != nil {
			return err
		}
	}
	return nil
}

func parts(name string) []string {
	return slices.DeleteFunc(strings.Split(filepath.Clean(name), "/"), func(s string) bool { return s == "" })
}
