// Package filewatch tells of changes of a file, however it is changed: written in place, replaced by a rename, or
// exchanged together with its folder, as the kubelet does with ConfigMaps and Secrets.
package filewatch

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/utils/clock"
)

// DefaultInterval is how often a file is read without having been told of a change: file systems exist that tell nothing.
const DefaultInterval = time.Minute

// Read returns the content of a file of at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	// Without waiting: a named pipe would hold up everything until somebody writes into it.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return data, nil
}

// Watcher watches one file.
type Watcher struct {
	// Path of the file, Limit its largest size in bytes.
	Path  string
	Limit int64
	Clock clock.WithTicker
	// Interval between two looks without a notice; DefaultInterval when 0.
	Interval time.Duration
	// Known is the content that is in use already.
	Known []byte
	// Changed gets every new content, and the error of every failure to read it, each once in a row. It is called by one
	// goroutine at a time.
	Changed func(data []byte, err error)
}

// Run watches until ctx ends. It blocks, and errors when nothing can be watched at all.
func (w *Watcher) Run(ctx context.Context) error {
	notices, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watching %s: %w", w.Path, err)
	}
	defer func() { _ = notices.Close() }()
	// The folder, not the file: a file that is replaced takes its watch with it.
	if err := notices.Add(filepath.Dir(w.Path)); err != nil {
		return fmt.Errorf("watching %s: %w", filepath.Dir(w.Path), err)
	}
	interval := w.Interval
	if interval == 0 {
		interval = DefaultInterval
	}
	tick := w.Clock.NewTicker(interval)
	defer tick.Stop()
	last, failed := sha256.Sum256(w.Known), ""
	for {
		data, err := Read(w.Path, w.Limit)
		switch hash := sha256.Sum256(data); {
		case err != nil && err.Error() != failed:
			failed = err.Error()
			w.Changed(nil, err)
		case err == nil && (hash != last || failed != ""):
			last, failed = hash, ""
			w.Changed(data, nil)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
		case _, open := <-notices.Events:
			if !open {
				return fmt.Errorf("watching %s: the watch has ended", w.Path)
			}
		case _, open := <-notices.Errors: // notices may have been lost: look
			if !open {
				return fmt.Errorf("watching %s: the watch has ended", w.Path)
			}
		}
	}
}
