package guest

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"strings"
	"testing"
)

func TestBootSectorHasOnePartition(t *testing.T) {
	code := bytes.Repeat([]byte{0xeb}, sector)
	s := bootSector(code)
	if len(s) != sector || s[510] != 0x55 || s[511] != 0xaa {
		t.Fatalf("%d bytes that end with %x: not a boot sector", len(s), s[510:])
	}
	if !bytes.Equal(s[:440], code[:440]) || s[440] != 0 {
		t.Error("the code is not there, or reaches into the table")
	}
	start, size := binary.LittleEndian.Uint32(s[454:]), binary.LittleEndian.Uint32(s[458:])
	if s[446] != 0x80 || s[450] != 0x83 || start != 2048 || int(start+size)*sector != diskSize {
		t.Errorf("partition of type %x, state %x, from %d on with %d sectors", s[450], s[446], start, size)
	}
	if !bytes.Equal(s[462:510], make([]byte, 48)) {
		t.Error("there are more partitions")
	}
}

func TestTheRecipeStaysTheSame(t *testing.T) {
	a, errA := Recipe()
	b, errB := Recipe()
	if errA != nil || errB != nil || a != b || len(a) != 12 {
		t.Errorf("got %q, %v and %q, %v", a, errA, b, errB)
	}
}

// TestNoMirrorIsNamed keeps addresses of repositories out of the recipe.
func TestNoMirrorIsNamed(t *testing.T) {
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if strings.Contains(string(data), "://") {
			t.Errorf("%s names an address", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
