//go:build linux

package local_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// checked is what one check says of the host.
func (w *world) checked(p *local.Provider) provider.TargetStatus {
	w.t.Helper()
	got := p.Check(w.t.Context())
	if len(got) != 1 || got[0].Target != host {
		w.t.Fatalf("the check says %+v", got)
	}
	return got[0]
}

func (w *world) expectCheck(when string, p *local.Provider, reason, says string) {
	w.t.Helper()
	if s := w.checked(p); s.Reason != reason || s.Ready != (reason == provider.CheckReachable) || !strings.Contains(s.Message, says) {
		w.t.Errorf("%s: %+v, want %s with %q", when, s, reason, says)
	}
}

func TestTheCheckCountsSlots(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	want := map[string]string{"slots": "30", "slotsFree": "30"}
	for range 2 {
		s := w.checked(p)
		if s.Details["stateDirFreeMiB"] == "" {
			t.Errorf("details: %v", s.Details)
		}
		delete(s.Details, "stateDirFreeMiB")
		if !s.Ready || s.Latency <= 0 || !maps.Equal(s.Details, want) {
			t.Errorf("the check says %+v, want details %v", s, want)
		}
		if want["slotsFree"] == "30" {
			w.created(p, w.request())
			want["slotsFree"] = "29"
		}
	}
}

// A pool in full use is what it is for.
func TestTheCheckOfAFullPool(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	w.fillPool()
	if s := w.checked(p); !s.Ready || s.Details["slotsFree"] != "0" {
		t.Errorf("the check says %+v", s)
	}
}

func TestTheCheckOfAddresses(t *testing.T) {
	for _, tc := range []struct {
		name, pool, reason, says, missing string
	}{
		{"none is the host's", "[{listen: 203.0.113.0/29}]", local.CheckAddressMissing, "203.0.113.1", "6"},
		{"no exit is", "[{listen: 127.0.0.1, exit: 203.0.113.9}]", local.CheckAddressMissing, "203.0.113.9", "1"},
		{"some are", "[{listen: 203.0.113.0/29}, {listen: 127.99.0.1}]", provider.CheckReachable, "", "6"},
		{"more than are looked at", "[{listen: '2001:db8::/64'}]", local.CheckAddressMissing, "2001:db8::1", "1024"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(providertest.Go(t))
			w.pool = tc.pool
			p := w.provider()
			w.expectCheck(tc.name, p, tc.reason, tc.says)
			if s := w.checked(p); s.Details["slotsMissing"] != tc.missing {
				t.Errorf("details: %v, want %s missing", s.Details, tc.missing)
			}
		})
	}
}

// What a proxy listens on at that moment is none of the check's business, and the check is none of its.
func TestTheCheckTakesNoPort(t *testing.T) {
	w := newWorld(providertest.Go(t))
	w.shrink(1)
	p := w.provider()
	ctx, stop := context.WithCancel(t.Context())
	checking := make(chan struct{})
	go func() {
		defer close(checking)
		for ctx.Err() == nil {
			p.Check(ctx)
		}
	}()
	for range 10 {
		ref, _ := w.created(p, w.request())
		w.deleted(p, ref)
	}
	stop()
	<-checking
}

func TestTheCheckOfTheFolder(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	w.expectCheck("at first", p, provider.CheckReachable, "")
	back := w.moveAway()
	w.expectCheck("moved away", p, local.CheckStateDirMissing, "no such file")
	must(w.t, os.Mkdir(w.dir, 0o700))
	w.expectCheck("another one in its place", p, local.CheckStateDirReplaced, "replaced")
	must(w.t, os.Remove(w.dir))
	back()
	w.expectCheck("put back", p, provider.CheckReachable, "")
	must(w.t, p.Close())
	w.expectCheck("after Close", p, provider.CheckUnreachable, "closed")
}

// A file system of its own shows what else can be wrong with the folder.
func TestTheCheckOfTheFileSystem(t *testing.T) {
	w := newWorld(providertest.Go(t))
	must(w.t, os.MkdirAll(w.dir, 0o700))
	if err := unix.Mount("none", w.dir, "tmpfs", 0, "size=4m,nr_inodes=64,mode=700"); err != nil {
		t.Skipf("mounting takes rights: %v", err)
	}
	w.t.Cleanup(func() { must(w.t, unix.Unmount(w.dir, unix.MNT_DETACH)) })
	p := w.provider()
	w.t.Cleanup(func() { _ = p.Close() }) // before it is unmounted
	w.expectCheck("with room", p, provider.CheckReachable, "")

	fill := filepath.Join(w.dir, "fill")
	must(w.t, os.WriteFile(fill, make([]byte, 3<<20+512<<10), 0o600))
	w.expectCheck("with half a MiB", p, local.CheckStateDirFull, "1 MiB")
	must(w.t, os.Remove(fill))

	var files []string
	for i := range 50 {
		files = append(files, filepath.Join(w.dir, "fill-"+string(rune('A'+i))))
		must(w.t, os.WriteFile(files[i], nil, 0o600))
	}
	w.expectCheck("with few files left", p, local.CheckStateDirFull, "16 files")
	for _, file := range files {
		must(w.t, os.Remove(file))
	}

	must(w.t, unix.Mount("none", w.dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	w.expectCheck("read-only", p, local.CheckStateDirReadOnly, "read-only")
	must(w.t, unix.Mount("none", w.dir, "", unix.MS_REMOUNT, ""))
	w.expectCheck("with room again", p, provider.CheckReachable, "")

	own := filepath.Join(w.dir, "egress-proxy")
	must(w.t, os.WriteFile(own, []byte("#!/bin/sh\n"), 0o700))
	w.binary = own
	q := w.provider()
	w.expectCheck("with its binary there", q, provider.CheckReachable, "")
	must(w.t, unix.Mount("none", w.dir, "", unix.MS_REMOUNT|unix.MS_NOEXEC, ""))
	w.expectCheck("where nothing may run", q, local.CheckBinaryNotExecutable, "permission denied")
}

// A look that hangs is shared: whoever comes later neither begins another nor hears what was given up.
func TestAnAbandonedLookMeansNothing(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	unlock := w.keepLocked("")
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if s := p.Check(ctx); s[0].Reason != provider.CheckTimeout {
			t.Errorf("while the folder is locked: %+v", s)
		}
		cancel()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); p.Check(short) }()
	long := make(chan []provider.TargetStatus)
	go func() { long <- p.Check(t.Context()) }()
	<-done // the first has given up, the other waits on
	unlock()
	if s := <-long; !s[0].Ready {
		t.Errorf("who waited longer hears %+v", s)
	}
}

// Once nobody waits for a look any more it ends, though the folder stays locked.
func TestALookEndsWithThoseWhoWaitForIt(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	defer w.keepLocked("")()
	before := goleak.IgnoreCurrent()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		p.Check(ctx)
		cancel()
	}
	w.eventually("the look's end", func() bool { return goleak.Find(before) == nil })
}

// The limit is the provider's own: the folder is locked for longer.
func TestTheCheckHasALimitOfItsOwn(t *testing.T) {
	w := newWorld(providertest.Go(t))
	w.window.CallTimeout = 50 * time.Millisecond
	p := w.provider()
	defer w.keepLocked("")()
	began := time.Now()
	w.expectCheck("while the folder is locked", p, provider.CheckTimeout, "locked")
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %s", d)
	}
}

// As any other user than root, the operator may be refused.
func TestTheCheckOfAFolderThatRefuses(t *testing.T) {
	if os.Geteuid() != 0 {
		w := newWorld(providertest.Go(t))
		p := w.provider()
		defer w.deny()()
		w.expectCheck("refused", p, provider.CheckForbidden, "permission denied")
		return
	}
	w := newWorld(providertest.Go(t))
	must(w.t, errors.Join(os.MkdirAll(w.dir, 0o755), os.Chmod(filepath.Dir(w.dir), 0o755)))
	w.ownBinary()
	h := w.start(job{Do: "check", As: 65534})
	if a, err := h.begin().next(); err != nil || a.Class != provider.CheckForbidden || !strings.Contains(a.Text, "cannot be written to") {
		t.Errorf("the check of another user says %+v, %v", a, err)
	}
}
