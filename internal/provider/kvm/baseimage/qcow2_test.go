package baseimage_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

// Beginnings of images that qemu-img 7.2 has made, without the names of features.
const (
	headV3 = "514649fb000000030000000000000000000000000000001000000000400000000000000000000002000000000003000000000000000100000000000100000000" +
		"0000000000000000000000000000000000000000000000000000000000000000000000040000007000000000000000000000000000000000"
	headV2 = "514649fb000000020000000000000000000000000000001000000000400000000000000000000002000000000003000000000000000100000000000100000000" +
		"00000000000000000000000000000000"
	headBacking = "514649fb000000030000000000000210000000080000001000000000400000000000000000000002000000000003000000000000000100000000000100000000" +
		"00000000000000000000000000000000000000000000000000000000000000000000000400000070000000000000000" + "0e2792aca0000000571636f7732000000"
	headDataFile = "514649fb000000030000000000000000000000000000001000000000001000000000000000000001000000000003000000000000000100000000000100000000" +
		"00000000000000000000000000000004000000000000000000000000000000020000000400000070000000000000000044415441000000057" + "82e726177000000"
	headLUKS = "514649fb000000030000000000000000000000000000001000000000001000000000000200000001000000000003000000000000000100000000000100000000" +
		"000000000000000000000000000000000000000000000000000000000000000000000004000000700000000000000000" + "0537be770000001000000000000400000000000000" + "1f9000"
	headZstd = "514649fb000000030000000000000000000000000000001000000000c0000000000000000000000c000000000003000000000000000100000000000100000000" +
		"000000000000000000000000000000180000000000000001000000000000000000000004000000700100000000000000" + "0000000000000000"
)

// image makes a whole image from a beginning: 4 clusters and some of the last.
func image(head string) []byte {
	b, err := hex.DecodeString(head)
	if err != nil {
		panic(err)
	}
	out := make([]byte, 0x30000+512)
	copy(out, b)
	// Something to tell positions apart by.
	for i := 0x10000; i < 0x10200; i++ {
		out[i] = byte(i)
	}
	return out
}

// qcow2 is an image with a disk of that many bytes.
func qcow2(size uint64) []byte { return with(image(headV3), 24, size) }

func with[T uint8 | uint16 | uint32 | uint64](b []byte, at int, v T) []byte {
	out := bytes.Clone(b)
	enc, _ := binary.Append(nil, binary.BigEndian, v)
	copy(out[at:], enc)
	return out
}

func head(b []byte) []byte { return b[:min(len(b), baseimage.HeadSize)] }

func TestTheBeginningOfAnImage(t *testing.T) {
	v3, v2 := image(headV3), image(headV2)
	padded := func(magic string) []byte { return append([]byte(magic), make([]byte, 4096-len(magic))...) }
	for _, tc := range []struct {
		reason string
		format string
		data   []byte
		size   int64
		says   string
	}{
		{"version 3", "qcow2", v3, 1 << 30, ""},
		{"version 2", "qcow2", v2, 1 << 30, ""},
		{"zstd and extended L2", "qcow2", image(headZstd), 3 << 30, ""},
		{"dirty", "qcow2", with(v3, 72, uint64(1)), 1 << 30, ""},
		{"a raw disk", "raw", make([]byte, 1024), 1024, ""},

		{"qemu's backing file", "qcow2", image(headBacking), 0, "has a backing file"},
		{"backing file in version 2", "qcow2", with(with(v2, 8, uint64(0x100)), 16, uint32(4)), 0, "has a backing file"},
		{"only an offset", "qcow2", with(v3, 8, uint64(1)), 0, "has a backing file"},
		{"only a length", "qcow2", with(v3, 16, uint32(4)), 0, "has a backing file"},
		{"qemu's data file", "qcow2", image(headDataFile), 0, "external data file"},
		{"only the feature", "qcow2", with(v3, 72, uint64(4)), 0, "external data file"},
		{"only the extension", "qcow2", with(image(headDataFile), 72, uint64(0)), 0, "external data file"},
		{"an extension in version 2", "qcow2", with(v2, 72, uint32(0x44415441)), 0, "external data file"},
		{"the extension behind another", "qcow2", with(with(with(v3, 112, uint32(0x6803f857)), 116, uint32(5)), 128, uint32(0x44415441)), 0, "external data file"},
		{"qemu's LUKS", "qcow2", image(headLUKS), 0, "encrypted"},
		{"AES", "qcow2", with(v2, 32, uint32(1)), 0, "encrypted"},
		{"a key without its method", "qcow2", with(image(headLUKS), 32, uint32(0)), 0, "encrypted"},
		{"corrupt", "qcow2", with(v3, 72, uint64(2)), 0, "corrupt"},
		{"an unknown feature", "qcow2", with(v3, 72, uint64(1<<5)), 0, "not known: 0x20"},
		{"the highest feature", "qcow2", with(v3, 72, uint64(1<<63)), 0, "not known"},
		{"unknown compression", "qcow2", with(image(headZstd), 104, uint8(2)), 0, "compression"},
		{"compression without its feature", "qcow2", with(v3, 104, uint8(1)), 0, "compression"},
		{"version 1", "qcow2", with(v3, 4, uint32(1)), 0, "version is 1"},
		{"version 4", "qcow2", with(v3, 4, uint32(4)), 0, "version is 4"},
		{"tiny clusters", "qcow2", with(v3, 20, uint32(8)), 0, "clusters"},
		{"huge clusters", "qcow2", with(v3, 20, uint32(22)), 0, "clusters"},
		{"a header of 0 bytes", "qcow2", with(v3, 100, uint32(0)), 0, "impossible length"},
		{"a header longer than its cluster", "qcow2", with(v3, 100, uint32(0xfffffff8)), 0, "impossible length"},
		{"an extension without end", "qcow2", with(with(v3, 112, uint32(7)), 116, uint32(0xffffffff)), 0, "do not end"},
		{"wide reference counts", "qcow2", with(v3, 96, uint32(7)), 0, "width"},
		{"no disk", "qcow2", qcow2(0), 0, "cannot be 0 bytes"},
		{"a disk of half a sector", "qcow2", qcow2(1<<30 + 256), 0, "bytes large"},
		{"a disk beyond all bounds", "qcow2", qcow2(1 << 63), 0, "bytes large"},
		{"a disk that file systems cannot hold", "qcow2", qcow2(16 << 40), 0, "bytes large"},
		{"a table too small for its disk", "qcow2", qcow2(4 << 30), 0, "tables do not fit"},
		{"a table beyond all bounds", "qcow2", with(v3, 36, uint32(0xffffffff)), 0, "tables do not fit"},
		{"no table", "qcow2", with(v3, 40, uint64(0)), 0, "impossible places"},
		{"a table off its cluster", "qcow2", with(v3, 40, uint64(0x30001)), 0, "impossible places"},
		{"a table far away", "qcow2", with(v3, 40, uint64(0xffffffffffff0000)), 0, "shorter"},
		{"cut off before its table", "qcow2", v3[:0x30000], 0, "shorter"},
		{"cut off in its header", "qcow2", v3[:100], 0, "cut off"},
		{"cut off in an old header", "qcow2", v2[:71], 0, "cut off"},
		{"something else", "qcow2", make([]byte, 4096), 0, "is not a qcow2 image"},
		{"nothing", "qcow2", nil, 0, "is not a qcow2 image"},
		{"compressed", "qcow2", padded("\x1f\x8b"), 0, "compressed with gzip, not a qcow2"},

		{"qcow2 as raw", "raw", v3, 0, "qcow2 image, not a raw"},
		{"an old qcow as raw", "raw", padded("QFI\xfb\x00\x00\x00\x01"), 0, "qcow2 image, not a raw"},
		{"VMDK as raw", "raw", padded("KDMV"), 0, "VMDK"},
		{"xz as raw", "raw", padded("\xfd7zXZ\x00"), 0, "xz"},
		{"half a sector", "raw", make([]byte, 1000), 0, "1000 bytes"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			size, err := baseimage.VirtualSize(tc.format, head(tc.data), int64(len(tc.data)))
			if tc.says == "" {
				if err != nil || size != tc.size {
					t.Fatalf("%d, %v, want %d", size, err, tc.size)
				}
				return
			}
			if !errors.Is(err, provider.ErrPermanent) || !strings.Contains(err.Error(), tc.says) || size != 0 {
				t.Fatalf("%d, %v, want a refusal with %q", size, err, tc.says)
			}
		})
	}
}

// What qemu-img makes here and now is judged as qemu-img itself does.
func TestImagesOfTheInstalledQEMU(t *testing.T) {
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("no qemu-img")
	}
	dir := t.TempDir()
	run := func(t *testing.T, args ...string) []byte {
		c := exec.CommandContext(t.Context(), tool, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("qemu-img %q: %v: %s", args, err, out)
		}
		return out
	}
	run(t, "create", "-f", "qcow2", "base", "64M")
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"plain":       {[]string{"x", "5G"}, ""},
		"odd size":    {[]string{"x", "1000000"}, ""},
		"old":         {[]string{"-o", "compat=0.10", "x", "5G"}, ""},
		"small":       {[]string{"-o", "cluster_size=512", "x", "100M"}, ""},
		"large":       {[]string{"-o", "cluster_size=2M", "x", "1T"}, ""},
		"zstd":        {[]string{"-o", "compression_type=zstd,extended_l2=on,cluster_size=128k", "x", "500G"}, ""},
		"prepared":    {[]string{"-o", "preallocation=metadata,lazy_refcounts=on", "x", "16M"}, ""},
		"overlay":     {[]string{"-b", "base", "-F", "qcow2", "x"}, "backing file"},
		"old overlay": {[]string{"-o", "compat=0.10", "-b", "base", "-F", "qcow2", "x"}, "backing file"},
		"data file":   {[]string{"-o", "data_file=there", "x", "1M"}, "external data file"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, append([]string{"create", "-f", "qcow2"}, tc.args...)...)
			data, err := os.ReadFile(filepath.Join(dir, "x"))
			if err != nil {
				t.Fatal(err)
			}
			size, err := baseimage.VirtualSize("qcow2", head(data), int64(len(data)))
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Fatalf("%d, %v, want a refusal with %q", size, err, tc.says)
				}
				return
			}
			var info struct {
				Size int64 `json:"virtual-size"`
			}
			if err := json.Unmarshal(run(t, "info", "--output=json", "x"), &info); err != nil {
				t.Fatal(err)
			}
			if err != nil || size != info.Size {
				t.Errorf("%d, %v, want %d", size, err, info.Size)
			}
		})
	}
}

// FuzzQCOW2 looks for a header that is accepted although it says what must be refused.
func FuzzQCOW2(f *testing.F) {
	for _, h := range []string{headV2, headV3, headBacking, headDataFile, headLUKS, headZstd} {
		b := image(h)
		f.Add(b[:1024], int64(len(b)))
		f.Add(with(b[:1024], 20, uint32(9)), int64(len(b)))
	}
	f.Add([]byte("QFI\xfb"), int64(4))
	f.Fuzz(func(t *testing.T, data []byte, length int64) {
		length = max(length, int64(len(data)))
		full := make([]byte, min(length, baseimage.HeadSize)) // as peek hands it on
		copy(full, data)
		if raw, err := baseimage.VirtualSize("raw", full, length); err == nil &&
			(bytes.HasPrefix(full, []byte("QFI")) && full[3] == 0xfb || raw != length || raw%512 != 0) {
			t.Errorf("raw: %d for %x", raw, full[:min(len(full), 16)])
		}
		size, err := baseimage.VirtualSize("qcow2", full, length)
		if err != nil {
			if !errors.Is(err, provider.ErrPermanent) || len(err.Error()) > 200 || size != 0 {
				t.Errorf("%d, %v", size, err)
			}
			return
		}
		u32 := func(at int) uint32 { return binary.BigEndian.Uint32(full[at:]) }
		u64 := func(at int) uint64 { return binary.BigEndian.Uint64(full[at:]) }
		switch v := u32(4); {
		case string(full[:4]) != "QFI\xfb", v != 2 && v != 3,
			u64(8) != 0, u32(16) != 0, u32(32) != 0,
			v == 3 && u64(72)&^uint64(1|8|16) != 0,
			size <= 0, size%512 != 0, uint64(size) != u64(24), size > 8<<40,
			u64(40) >= uint64(length), u64(48) >= uint64(length):
			t.Errorf("accepted: %d bytes, %x", size, full[:104])
		}
	})
}
