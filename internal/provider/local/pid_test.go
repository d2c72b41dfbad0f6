//go:build linux

package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestAStrangerWithTheRecordIsNeverKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, _ := w.created(p, w.request())
	w.kill(ref.ID)
	stranger := w.start(job{Do: "hold", Path: w.file(ref.ID, ".json")})
	pid := stranger.cmd.Process.Pid
	if w.pid(ref.ID) != pid {
		t.Fatalf("the kernel names %d as the holder, the helper is %d", w.pid(ref.ID), pid)
	}

	inst, err := p.Get(context.Background(), w.old(ref))
	if err != nil || inst.State != provider.StateUnknown || inst.IP != "" || !strings.Contains(inst.Message, fmt.Sprint(pid)) {
		t.Errorf("Get = %+v, %v, want Unknown with the process in the message", inst, err)
	}
	if listing, err := p.ListByTag(context.Background()); err != nil || len(listing.Instances) != 1 || listing.Instances[0].State != provider.StateUnknown {
		t.Errorf("ListByTag = %+v, %v", listing, err)
	}
	err = p.Delete(context.Background(), ref)
	expectClass(t, err, provider.ErrTransient)
	if !strings.Contains(err.Error(), fmt.Sprintf("process %d, which is not a proxy", pid)) {
		t.Errorf("Delete = %v", err)
	}
	if err := syscall.Kill(pid, 0); err != nil || w.pid(ref.ID) != pid {
		t.Errorf("the stranger is gone: %v", err)
	}
	stranger.kill()
	w.deleted(p, ref)
	w.nothingLeft("once the stranger had gone")
}

func TestAProxyOfAnotherRecordIsNeverKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, _ := w.created(p, w.request())
	w.kill(ref.ID)
	// A real proxy that was started on a record which then got another name, while a copy took the name over.
	away := w.file(ref.ID, ".away")
	must(t, os.Rename(w.file(ref.ID, ".json"), away))
	cmd := exec.Command(binary, "--listen=127.0.0.1:0", "--state-file="+away)
	must(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	w.eventually("the proxy having its record", func() bool {
		f, err := os.Open(away)
		must(t, err)
		defer f.Close()
		_, held, err := instancelock.Holder(f)
		must(t, err)
		return held
	})
	must(t, os.Rename(away, w.file(ref.ID, ".json")))
	must(t, os.WriteFile(away, nil, 0o600))
	inst, err := p.Get(context.Background(), ref)
	if err != nil || inst.State != provider.StateUnknown || !strings.Contains(inst.Message, "another record") {
		t.Errorf("Get = %+v, %v, want Unknown", inst, err)
	}
	expectClass(t, p.Delete(context.Background(), ref), provider.ErrTransient)
	// The record's lock has to be free before it can be deleted; the proxy ends since its own path is another file.
	_ = cmd.Wait()
	w.deleted(p, ref)
	must(t, os.Remove(away))
	w.nothingLeft("in the end")
}

func TestWhatADeletionHoldsIsDeleting(t *testing.T) {
	w := newWorld(providertest.Go(t))
	p := w.provider()
	ref, before := w.created(p, w.request())
	w.kill(ref.ID)
	f, err := os.OpenFile(w.file(ref.ID, ".json"), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	release, err := instancelock.TryTake(f)
	must(t, err)
	if pid := w.pid(ref.ID); pid >= 0 {
		t.Fatalf("the kernel names %d as the holder, want a negative number", pid)
	}

	inst, err := p.Get(context.Background(), w.old(ref))
	if err != nil || inst.State != provider.StateDeleting || inst.IP != "" || inst.Identity != before.Identity {
		t.Errorf("Get = %+v, %v, want Deleting", inst, err)
	}
	// A negative pid would be a whole group of processes, this test's included.
	expectClass(t, p.Delete(context.Background(), ref), provider.ErrTransient)
	if now, err := p.Get(context.Background(), ref); err != nil || now.State != provider.StateDeleting {
		t.Errorf("after a second Delete: %+v, %v", now, err)
	}
	must(t, release())
	w.deleted(p, ref)
	w.nothingLeft("after Delete")
}

func TestOneFolderSpelledTwoWays(t *testing.T) {
	w := newWorld(providertest.Go(t))
	ref, before := w.created(w.provider(), w.request())
	link := w.dir + "-link"
	must(t, os.Symlink(w.dir, link))
	dir := w.dir
	w.dir = link
	p := w.provider()
	w.dir = dir
	if now := w.running(p, ref); now.Identity != before.Identity {
		t.Errorf("through the link it is %+v, before %+v", now, before)
	}
	w.deleted(p, ref)
	w.nothingLeft("after Delete through the link")
}
