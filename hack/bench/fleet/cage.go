package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apiwait "k8s.io/apimachinery/pkg/util/wait"
)

// cageBytes is the memory limit that the manifests give the operator's container.
const cageBytes = 128 << 20

// cage is a memory cgroup with the container's limit, in which the operator runs: it is killed beyond, as it would be in a
// cluster. Where there can be none (no root, no memory controller) it is nil, and the process's own peak is all that is known.
type cage struct {
	dir    string
	modern bool // version 2
	peak   string
}

func newCage() *cage {
	name := fmt.Sprintf("egress-proxies-fleet-%d", os.Getpid())
	for _, c := range []*cage{
		{dir: filepath.Join("/sys/fs/cgroup", name), modern: true, peak: "memory.peak"},
		{dir: filepath.Join("/sys/fs/cgroup/memory", name), peak: "memory.max_usage_in_bytes"},
	} {
		limit := "memory.limit_in_bytes"
		if c.modern {
			limit = "memory.max"
			if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
				continue
			}
		}
		if err := os.Mkdir(c.dir, 0o755); err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(c.dir, limit), []byte(strconv.Itoa(cageBytes)), 0); err != nil {
			_ = os.Remove(c.dir)
			continue
		}
		return c
	}
	return nil
}

// take moves a process in.
func (c *cage) take(pid int) error {
	if c == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(c.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// peakMiB returns the most that was charged to the cage so far: anonymous memory, and files in the page cache as far as they
// were read from in here.
func (c *cage) peakMiB() (float64, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, c.peak))
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	return bytes / (1 << 20), err
}

// close removes the cage once it is empty.
func (c *cage) close() error {
	if c == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var last error
	err := apiwait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		last = os.Remove(c.dir)
		return last == nil || errors.Is(last, fs.ErrNotExist), nil
	})
	if err != nil {
		return last
	}
	return nil
}
