package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
)

const (
	maxAuthFileBytes = 4096
	// authCheck is how often at most the file is looked at.
	authCheck = time.Second
	// A file changed this recently may be changed again within one tick of the
	// filesystem's clock, at the same size: it is read again until it is older.
	authSettles = 2 * time.Second
)

type credentials struct{ username, password string }

// fingerprint tells whether a file has to be read again.
type fingerprint struct {
	modified time.Time
	inode    uint64
	mode     fs.FileMode
	size     int64
}

// credentialFile authorizes against a file and follows its changes. A new
// content that is no good keeps the old credentials in force: a half-written
// file must neither open the proxy nor lock everybody out.
type credentialFile struct {
	path  string
	clock clock.PassiveClock
	log   logr.Logger

	mu      sync.Mutex
	current credentials
	checked time.Time
	seen    fingerprint
	problem string // last one logged, so that it is logged once
}

// openCredentials reads the file for the first time; here a bad one is an error.
func openCredentials(path string, c clock.PassiveClock, log logr.Logger) (*credentialFile, error) {
	creds, seen, err := readCredentials(path)
	if err != nil {
		return nil, fmt.Errorf("--auth-file %q: %w", path, err)
	}
	f := &credentialFile{path: path, clock: c, log: log, current: creds, checked: c.Now()}
	f.settle(seen)
	return f, nil
}

// Authorize implements forwardproxy.AuthorizeFunc. At most once a second it
// looks at the file, which blocks for as long as a local file takes.
func (f *credentialFile) Authorize(username, password string, ok bool) bool {
	want := f.refreshed()
	return forwardproxy.EqualCredentials(username, password, want.username, want.password) && ok
}

func (f *credentialFile) refreshed() credentials {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock.Since(f.checked) < authCheck {
		return f.current
	}
	f.checked = f.clock.Now()
	if info, err := os.Stat(f.path); err == nil && f.seen == fingerprintOf(info) {
		return f.current
	}
	creds, seen, err := readCredentials(f.path)
	if err != nil {
		if f.problem != err.Error() {
			f.problem = err.Error()
			f.log.Error(err, "the credentials file is not usable, the former credentials stay in force", "file", f.path)
		}
		f.settle(seen)
		return f.current
	}
	f.problem = ""
	f.settle(seen)
	if creds != f.current {
		f.current = creds
		f.log.Info("credentials replaced", "file", f.path)
	}
	return f.current
}

// settle remembers what was read unless it may still be changing unnoticed.
func (f *credentialFile) settle(seen fingerprint) {
	if f.clock.Since(seen.modified) < authSettles {
		seen = fingerprint{}
	}
	f.seen = seen
}

func fingerprintOf(info fs.FileInfo) fingerprint {
	fp := fingerprint{modified: info.ModTime(), size: info.Size(), mode: info.Mode()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		fp.inode = st.Ino
	}
	return fp
}

// readCredentials never repeats the file's content in an error.
func readCredentials(path string) (credentials, fingerprint, error) {
	// Not blocking, in case somebody put a named pipe there.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return credentials{}, fingerprint{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return credentials{}, fingerprint{}, err
	}
	seen := fingerprintOf(info)
	if !info.Mode().IsRegular() {
		return credentials{}, seen, errors.New("not a regular file")
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return credentials{}, seen, fmt.Errorf("mode %04o lets others than the owner use it; want 0600", mode)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxAuthFileBytes+1))
	if err != nil {
		return credentials{}, seen, err
	}
	if len(content) > maxAuthFileBytes {
		return credentials{}, seen, fmt.Errorf("longer than %d bytes", maxAuthFileBytes)
	}
	creds, err := parseCredentials(string(content))
	return creds, seen, err
}

func parseCredentials(content string) (credentials, error) {
	line := strings.TrimSuffix(content, "\n")
	if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return credentials{}, errors.New("want exactly one line username:password without control characters")
	}
	username, password, found := strings.Cut(line, ":")
	if !found || username == "" || password == "" {
		return credentials{}, errors.New("want exactly one line username:password, neither of them empty")
	}
	return credentials{username, password}, nil
}
