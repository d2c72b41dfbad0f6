package baseimage

import (
	"bytes"
	"encoding/binary"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// The header of qcow2, all big-endian: https://github.com/qemu/qemu/blob/master/docs/interop/qcow2.rst
const (
	// headSize is how much of an image is looked at, in bytes. Header and extensions take some hundred.
	headSize = 64 << 10

	v2Header = 72
	v3Header = 104

	featureDirty       = 1 << 0 // reference counts to be repaired by a writer, which a base never has
	featureCorrupt     = 1 << 1
	featureDataFile    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4
	featuresAccepted   = featureDirty | featureCompression | featureExtendedL2

	extensionEnd      = 0
	extensionDataFile = 0x44415441
	extensionCrypto   = 0x0537be77

	sector = 512
	// maxVirtual is the largest disk, in bytes: a marker of that size still is a file that common file systems can hold.
	maxVirtual = 8 << 40
	maxL1      = 32 << 20 // bytes, as in qemu
)

var qcowMagic = []byte("QFI\xfb")

// others are beginnings of what is neither qcow2 nor a raw disk.
var others = []struct{ magic, name string }{
	{"QED\x00", "a QED image"}, {"OOOM", "a COW image"}, {"KDMV", "a VMDK image"}, {"COWD", "a VMDK image"}, {"# Disk DescriptorFile", "a VMDK descriptor"},
	{"vhdxfile", "a VHDX image"}, {"conectix", "a VHD image"}, {"<<< ", "a VDI image"}, {"\x1f\x8b", "compressed with gzip"},
	{"\xfd7zXZ\x00", "compressed with xz"}, {"BZh", "compressed with bzip2"}, {"\x28\xb5\x2f\xfd", "compressed with zstd"},
	{"PK\x03\x04", "a zip archive"},
}

// virtualSize checks the beginning of an image that is length bytes long in all, and returns the size of its disk in bytes.
// head is all of the image, or its first headSize bytes. Any failure is permanent.
func virtualSize(format string, head []byte, length int64) (int64, *Failure) {
	if format == QCOW2 {
		return qcow2Size(head, length)
	}
	if bytes.HasPrefix(head, qcowMagic) {
		return 0, refuse("it is a qcow2 image, not a raw one")
	}
	if what, ok := known(head); ok {
		return 0, refuse("it is %s, not a raw image", what)
	}
	if length <= 0 || length%sector != 0 || length > maxVirtual {
		return 0, refuse("a raw disk cannot be %d bytes long", length)
	}
	return length, nil
}

func refuse(format string, args ...any) *Failure { return fail(provider.ErrPermanent, format, args...) }

func known(head []byte) (string, bool) {
	for _, o := range others {
		if bytes.HasPrefix(head, []byte(o.magic)) {
			return o.name, true
		}
	}
	return "", false
}

func qcow2Size(head []byte, length int64) (int64, *Failure) {
	if !bytes.HasPrefix(head, qcowMagic) {
		if what, ok := known(head); ok {
			return 0, refuse("it is %s, not a qcow2 image", what)
		}
		return 0, refuse("it is not a qcow2 image")
	}
	if len(head) < v2Header {
		return 0, refuse("its qcow2 header is cut off")
	}
	u32 := func(at int) uint32 { return binary.BigEndian.Uint32(head[at:]) }
	u64 := func(at int) uint64 { return binary.BigEndian.Uint64(head[at:]) }

	version, clusterBits := u32(4), u32(20)
	switch {
	case version != 2 && version != 3:
		return 0, refuse("its qcow2 version is %d, neither 2 nor 3", version)
	// Some readers look at the length alone, some at the offset.
	case u64(8) != 0 || u32(16) != 0:
		return 0, refuse("it has a backing file")
	case u32(32) != 0:
		return 0, refuse("it is encrypted")
	case clusterBits < 9 || clusterBits > 21:
		return 0, refuse("its clusters have an impossible size")
	}
	extensions, entry := uint32(v2Header), uint32(8)
	if version == 3 {
		if len(head) < v3Header {
			return 0, refuse("its qcow2 header is cut off")
		}
		f := features(head)
		if f != nil {
			return 0, f
		}
		extensions = u32(100)
		if u64(72)&featureExtendedL2 != 0 {
			entry = 16
		}
	}
	if extensions > 1<<clusterBits {
		return 0, refuse("its qcow2 header has an impossible length")
	}
	if f := checkExtensions(head, extensions, 1<<clusterBits); f != nil {
		return 0, f
	}
	return checkTables(u64(24), u32(36), u64(40), u64(48), clusterBits, entry, length)
}

// features checks what version 3 has more. head is as long as its header.
func features(head []byte) *Failure {
	set, length := binary.BigEndian.Uint64(head[72:]), binary.BigEndian.Uint32(head[100:])
	compression := byte(0)
	if length > v3Header && len(head) > v3Header {
		compression = head[v3Header]
	}
	switch {
	case set&featureDataFile != 0:
		return refuse("it has an external data file")
	case set&featureCorrupt != 0:
		return refuse("it is marked corrupt")
	case set&^featuresAccepted != 0:
		return refuse("it has incompatible features that are not known: %#x", set&^uint64(featuresAccepted))
	case length < v3Header || length%8 != 0:
		return refuse("its qcow2 header has an impossible length")
	case compression > 1 || (compression != 0) != (set&featureCompression != 0):
		return refuse("its kind of compression is not known")
	case binary.BigEndian.Uint32(head[96:]) > 6:
		return refuse("its reference counts have an impossible width")
	}
	return nil
}

// checkExtensions walks from one header extension to the next, as qemu does: to the end of the first cluster.
func checkExtensions(head []byte, at, cluster uint32) *Failure {
	data := head[:min(len(head), int(cluster))]
	for pos := int64(at); pos < int64(cluster); {
		if pos+8 > int64(len(data)) {
			return refuse("its header extensions do not end")
		}
		kind, length := binary.BigEndian.Uint32(data[pos:]), int64(binary.BigEndian.Uint32(data[pos+4:]))
		switch kind {
		case extensionEnd:
			return nil
		case extensionDataFile:
			return refuse("it has an external data file")
		case extensionCrypto:
			return refuse("it is encrypted")
		}
		pos += 8 + (length+7)/8*8
		if pos > int64(len(data)) {
			return refuse("its header extensions do not end")
		}
	}
	return nil
}

// checkTables checks the disk's size against the tables that map it, and these against the file.
func checkTables(size uint64, l1Entries uint32, l1, refcounts uint64, clusterBits, entry uint32, length int64) (int64, *Failure) {
	if size == 0 || size%sector != 0 || size > maxVirtual {
		return 0, refuse("its disk cannot be %d bytes large", size)
	}
	cluster := uint64(1) << clusterBits
	perL1 := cluster * (cluster / uint64(entry)) // bytes of the disk that one entry maps
	l1Size := uint64(l1Entries) * 8
	switch {
	case l1Size > maxL1 || uint64(l1Entries) < (size+perL1-1)/perL1:
		return 0, refuse("its tables do not fit its size")
	case l1%cluster != 0 || refcounts%cluster != 0 || l1 == 0 || refcounts == 0:
		return 0, refuse("its tables are at impossible places")
	case l1 > uint64(length) || l1Size > uint64(length)-l1 || refcounts >= uint64(length): //nolint:gosec // a length is not negative
		return 0, refuse("it is shorter than its header says")
	}
	return int64(size), nil
}
