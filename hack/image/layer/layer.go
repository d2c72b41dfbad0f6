// Package layer makes container images out of files, without a registry, a base image or a container engine. The same
// entries give the same bytes: entries are sorted, and no time of day gets in.
package layer

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"reflect"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Entry is one path of a layer: a directory, a symbolic link or a file. Dir, File, Copy and Symlink make one; the owner is
// root unless UID and GID are set afterwards.
type Entry struct {
	// Path is absolute, inside of the image.
	Path string
	// Mode is the type with permissions and, where wanted, fs.ModeSticky. Set-user-ID and set-group-ID are not carried.
	Mode     fs.FileMode
	UID, GID int
	// Data or the file Source is what is in a file; Target is where a link leads.
	Data   []byte
	Source string
	Target string
}

// Dir is a directory. Missing ones above any entry are added with 0755.
func Dir(at string, perm fs.FileMode) Entry { return Entry{Path: at, Mode: fs.ModeDir | perm} }

// File is a file with data in it.
func File(at string, perm fs.FileMode, data []byte) Entry {
	return Entry{Path: at, Mode: perm, Data: data}
}

// Copy is a file with what is in source, which New reads.
func Copy(at string, perm fs.FileMode, source string) Entry {
	return Entry{Path: at, Mode: perm, Source: source}
}

// Symlink is a symbolic link to target, which need not be there.
func Symlink(at, target string) Entry {
	return Entry{Path: at, Mode: fs.ModeSymlink | 0o777, Target: target}
}

// New makes a layer, compressed with gzip and held in memory. It reads the sources. It fails when one cannot be read, when
// two entries differ about one path, and when one lies below something that is no directory.
func New(entries ...Entry) (v1.Layer, error) {
	var b bytes.Buffer
	if err := archive(&b, entries); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
}

// archive writes the entries in the form of tar, in the order of their paths.
func archive(to io.Writer, entries []Entry) error {
	tree, err := arrange(entries)
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	for _, at := range slices.Sorted(maps.Keys(tree)) {
		if err := write(w, tree[at]); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return w.Close()
}

// arrange returns the entries by path, with the directories above them.
func arrange(entries []Entry) (map[string]Entry, error) {
	tree := map[string]Entry{}
	for _, e := range entries {
		if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || e.Path == "/" {
			return nil, fmt.Errorf("%q is not a clean absolute path", e.Path)
		}
		if other, ok := tree[e.Path]; ok && !reflect.DeepEqual(other, e) {
			return nil, fmt.Errorf("%s: two entries differ", e.Path)
		}
		tree[e.Path] = e
	}
	for _, e := range entries {
		for dir := path.Dir(e.Path); dir != "/"; dir = path.Dir(dir) {
			switch above, ok := tree[dir]; {
			case !ok:
				tree[dir] = Dir(dir, 0o755)
			case !above.Mode.IsDir():
				return nil, fmt.Errorf("%s lies below %s, which is no directory", e.Path, dir)
			}
		}
	}
	return tree, nil
}

func write(w *tar.Writer, e Entry) error {
	h := &tar.Header{
		Name: e.Path[1:], Uid: e.UID, Gid: e.GID, Mode: int64(e.Mode.Perm()),
		ModTime: time.Unix(0, 0), // a time of day would make every build another image
	}
	if e.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	data := e.Data
	switch {
	case e.Mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	case e.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Target
	case e.Mode.IsRegular():
		if e.Source != "" {
			var err error
			if data, err = os.ReadFile(e.Source); err != nil {
				return err
			}
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
	default:
		return fmt.Errorf("no file, directory or link: %v", e.Mode)
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}
