package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// build makes the disk of a guest as a compressed qcow2, in the empty folder work.
func build(ctx context.Context, mirror, work string, progress io.Writer) (image string, err error) {
	began := time.Now()
	say := func(what string) {
		fmt.Fprintf(progress, "guest: %3.0f s  %s\n", time.Since(began).Seconds(), what)
	}
	if err := unpack(work); err != nil {
		return "", err
	}
	root, raw, image := filepath.Join(work, "root"), filepath.Join(work, "disk.raw"), filepath.Join(work, "disk.qcow2")
	command, err := bootstrap(ctx, mirror, work, root)
	if err != nil {
		return "", err
	}
	say("installing packages of Debian " + suite)
	if err := run(ctx, newTicker(progress, began), command...); err != nil {
		return "", err
	}
	say("making a disk of them")
	if err := makeDisk(ctx, root, work, raw); err != nil {
		return "", err
	}
	say("compressing it")
	if err := run(ctx, io.Discard, "qemu-img", "convert", "-c", "-W", "-m", "4", "-O", "qcow2", raw, image); err != nil {
		return "", err
	}
	say("done")
	return image, nil
}

// bootstrap is the command that makes the folder root of packages and of the files in work.
func bootstrap(ctx context.Context, mirror, work, root string) ([]string, error) {
	sources, err := Sources(ctx, mirror)
	if err != nil {
		return nil, err
	}
	list := filepath.Join(work, "sources.list")
	if err := os.WriteFile(list, []byte(sources), 0o644); err != nil {
		return nil, err
	}
	apt, err := aptOptions(ctx)
	if err != nil {
		return nil, err
	}
	// Whatever happens, all that it starts ends with it.
	command := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}
	command = append(command, "mmdebstrap", "--mode=root", "--include="+strings.Join(packages, ","))
	command = append(command, options...)
	command = append(command, apt...)
	return append(command,
		"--customize-hook=copy-in "+filepath.Join(work, "files", "init")+" "+filepath.Join(work, "files", "finish")+" /",
		"--customize-hook=sync-in "+filepath.Join(work, "files", "after")+" /",
		"--customize-hook=chroot \"$1\" env NAMESERVER="+Nameserver+" sh /finish",
		suite, root, list,
	), nil
}

// unpack writes the embedded files below the folder.
func unpack(folder string) error {
	return fs.WalkDir(files, "files", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(folder, path)
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := files.ReadFile(path)
		return errors.Join(err, os.WriteFile(target, data, 0o644))
	})
}
