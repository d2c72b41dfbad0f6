package guest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A disk is a boot sector with a table of one partition, the boot loader right behind, and the partition from 1 MiB on.
const (
	sector         = 512
	partitionStart = 1 << 20
	diskSize       = 1 << 30
)

// modules are the parts of GRUB that boot a kernel from such a disk.
var modules = []string{"biosdisk", "part_msdos", "ext2", "linux", "boot"}

// makeFilesystem is the command that makes the partition of the folder, without a loop device. The features are those that
// every GRUB and kernel know.
func makeFilesystem(folder, image string) []string {
	return []string{
		"mke2fs", "-q", "-t", "ext4", "-F", "-L", "guest", "-d", folder, "-m", "0", "-J", "size=4",
		"-O", "none,has_journal,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize",
		"-E", fmt.Sprintf("offset=%d,lazy_itable_init=1,lazy_journal_init=1,nodiscard", partitionStart),
		image, fmt.Sprintf("%dk", (diskSize-partitionStart)>>10),
	}
}

// makeDisk makes the raw disk of the folder. Parts of it are made in work.
func makeDisk(ctx context.Context, folder, work, image string) error {
	config, err := files.ReadFile("files/grub.cfg")
	if err != nil {
		return err
	}
	configFile, core := filepath.Join(work, "grub.cfg"), filepath.Join(work, "core.img")
	if err := os.WriteFile(configFile, config, 0o600); err != nil {
		return err
	}
	disk, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(disk.Truncate(diskSize), disk.Close()); err != nil {
		return err
	}
	grub := append([]string{"grub-mkimage", "-O", "i386-pc", "-d", grubFolder, "-p", "/", "-c", configFile, "-o", core}, modules...)
	for _, command := range [][]string{makeFilesystem(folder, image), grub} {
		if err := run(ctx, io.Discard, command...); err != nil {
			return err
		}
	}
	return writeBoot(image, core)
}

// writeBoot writes what is before the partition.
func writeBoot(image, core string) error {
	loader, err := os.ReadFile(core)
	if err != nil {
		return err
	}
	boot, err := os.ReadFile(filepath.Join(grubFolder, "boot.img"))
	if err != nil {
		return err
	}
	if len(loader) > partitionStart-sector {
		return fmt.Errorf("the boot loader has %d bytes and does not fit before the partition", len(loader))
	}
	disk, err := os.OpenFile(image, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = disk.WriteAt(append(bootSector(boot), loader...), 0)
	return errors.Join(err, disk.Close())
}

// bootSector is GRUB's code with the table of one active partition of Linux. As it comes, the code loads what begins in
// the second sector.
func bootSector(code []byte) []byte {
	const table = 446
	s := make([]byte, sector)
	copy(s[:440], code)
	entry := s[table : table+16]
	entry[0] = 0x80
	entry[4] = 0x83
	binary.LittleEndian.PutUint32(entry[8:], partitionStart/sector)
	binary.LittleEndian.PutUint32(entry[12:], (diskSize-partitionStart)/sector)
	s[510], s[511] = 0x55, 0xaa
	return s
}
