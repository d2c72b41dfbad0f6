//go:build linux

package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// everyCall returns what each call that needs the folder answers about ref, whose window has passed.
func (w *world) everyCall(ctx context.Context, p provider.Provider, ref provider.Ref) map[string]error {
	req := w.request()
	errs := map[string]error{"create": p.Create(ctx, req, w.ref(req, 1)), "delete": p.Delete(ctx, w.old(ref))}
	_, errs["get"] = p.Get(ctx, w.old(ref))
	_, errs["list"] = p.ListByTag(ctx)
	errs["updatecredentials"] = p.(provider.CredentialUpdater).UpdateCredentials(ctx, w.old(ref),
		provider.Credentials{Username: "user", Password: "secret"})
	return errs
}

func TestAFolderThatIsGoneProvesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ replacement, reason string }{
		"missing":       {"", "the folder was moved away"},
		"replaced":      {"folder", "an empty folder, such as the mount point of a lost volume"},
		"a file":        {"file", "something that is no folder"},
		"a broken link": {"link", "a link to nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(providertest.Go(t))
			p := w.provider()
			ref, _ := w.created(p, w.request())
			restore := w.moveAway()
			switch tc.replacement {
			case "folder":
				must(t, os.Mkdir(w.dir, 0o700))
			case "file":
				must(t, os.WriteFile(w.dir, nil, 0o600))
			case "link":
				must(t, os.Symlink(w.dir+".nowhere", w.dir))
			}
			for call, err := range w.everyCall(context.Background(), p, ref) {
				if provider.Class(err) != provider.ErrTransient || !strings.Contains(err.Error(), "the state folder") {
					t.Errorf("%s: %s = %v, want ErrTransient about the state folder", tc.reason, call, err)
				}
			}
			if tc.replacement != "" {
				must(t, os.Remove(w.dir))
			}
			restore()
			w.deleted(p, ref)
		})
	}
}

func TestADeniedFolder(t *testing.T) {
	w := newWorld(providertest.Go(t))
	req := w.request()
	ref := w.ref(req, 1)
	if os.Geteuid() == 0 { // root is refused nothing: somebody else has to try
		for _, do := range []string{"create", "delete"} {
			h := w.start(job{Do: do, Reqs: []provider.CreateRequest{req}, Refs: []provider.Ref{ref}, As: 65534}).begin()
			if a, err := h.next(); err != nil || a.Class != "denied" {
				t.Errorf("%s by somebody else than the folder's owner = %+v, %v, want denied", do, a, err)
			}
		}
		return
	}
	p := w.provider()
	restore := w.deny()
	defer restore()
	for call, err := range w.everyCall(context.Background(), p, ref) {
		if provider.Class(err) != provider.ErrDenied {
			t.Errorf("%s = %v, want ErrDenied", call, err)
		}
	}
}

func TestWaitingForTheLockEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	w.window.CallTimeout = 100 * time.Millisecond
	p := w.provider()
	_, release := w.holdFolder()
	defer release()
	began := time.Now()
	for call, err := range w.everyCall(context.Background(), p, w.ref(w.request(), 1)) {
		if provider.Class(err) != provider.ErrTransient || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s while somebody keeps the lock = %v", call, err)
		}
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("the calls took %s", took)
	}
}

func TestStrangeThingsInTheFolder(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a named pipe":  func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a folder":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a link out":    func(path string) error { return os.Symlink("/etc/hostname", path) },
		"a broken link": func(path string) error { return os.Symlink("nowhere", path) },
		"no JSON":       func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"null":          func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"too much": func(path string) error {
			return os.WriteFile(path, []byte(foreignRecord(filepath.Base(path))+strings.Repeat(" ", 64<<10)), 0o600)
		},
		"another host's": func(path string) error {
			return os.WriteFile(path, []byte(strings.Replace(foreignRecord(filepath.Base(path)), host, "elsewhere", 1)), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(providertest.Go(t))
			p := w.provider()
			req := w.request()
			ref := w.ref(req, 1)
			must(t, put(w.file(ref.ID, ".json")))
			before, err := os.Lstat(w.file(ref.ID, ".json"))
			must(t, err)
			_, err = p.Get(context.Background(), w.old(ref))
			expectClass(t, err, provider.ErrConflict)
			expectClass(t, p.Create(context.Background(), req, ref), provider.ErrConflict)
			expectClass(t, p.Delete(context.Background(), ref), provider.ErrConflict)
			after, err := os.Lstat(w.file(ref.ID, ".json"))
			if err != nil || !os.SameFile(before, after) {
				t.Errorf("what stood there was changed: %v", err)
			}
			other, _ := w.created(p, w.request()) // nobody else is bothered
			w.deleted(p, other)
		})
	}
}

// foreignRecord is a record as the provider writes them, of the file's instance.
func foreignRecord(file string) string {
	return recordOf(strings.TrimSuffix(file, ".json"), "127.0.0.1", provider.Marks{
		UID: "00000000-0000-4000-8000-000000000001", Installation: owner.Installation, Cluster: owner.Cluster, Attempt: 1,
	})
}
