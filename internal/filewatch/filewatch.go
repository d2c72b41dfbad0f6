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
	// Settle is for how long a content, or a failure to read one, has to stay as it is before it is told: editors and scripts
	// write a file in parts, and half of a file can be a whole one to whoever reads it. 0 tells at once.
	Settle time.Duration
	// Known is the content that is in use already.
	Known []byte
	// Changed gets every new content, and the error of every failure to read it, each once in a row. It is called by one
	// goroutine at a time.
	Changed func(data []byte, err error)
}

// Run watches until ctx ends, and then returns nil. It blocks. Where the system gives no notices (it has run out of watches, or
// the folder is not there) it looks at every interval, and tries to get some again.
func (w *Watcher) Run(ctx context.Context) error {
	// The folder, not the file: a file that is replaced takes its watch with it.
	n := notices{folder: filepath.Dir(w.Path)}
	defer n.close()
	interval := w.Interval
	if interval == 0 {
		interval = DefaultInterval
	}
	tick := w.Clock.NewTicker(interval)
	defer tick.Stop()
	l := look{settle: w.Settle, told: sight{hash: sha256.Sum256(w.Known)}}
	n.want()
	for {
		data, err := Read(w.Path, w.Limit)
		wait, tell := l.at(sightOf(data, err), w.Clock.Now())
		if tell {
			w.Changed(data, err)
		}
		var settled <-chan time.Time
		if wait > 0 {
			settled = w.Clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			n.want()
		case <-settled:
		case _, open := <-n.events:
			if !open {
				n.close()
			}
		case _, open := <-n.errors: // notices may have been lost: look
			if !open {
				n.close()
			}
		}
	}
}
