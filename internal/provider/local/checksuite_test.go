//go:build linux

package local_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// TestCheckConforms runs the suite for checkers. It is not parallel: the suite counts goroutines.
func TestCheckConforms(t *testing.T) {
	providertest.RunChecker(providertest.Go(t), func(t providertest.T) *providertest.CheckerEnv {
		w := newWorld(t)
		w.ownBinary()
		env := w.environment()
		env.HoldSend = func() (<-chan struct{}, func()) { return w.holdStep("looked") }
		return &providertest.CheckerEnv{
			Env: env, Targets: []string{host}, IDs: map[string]string{host: "hosts/" + host + "/processes/" + w.request().Name},
			States: []providertest.CheckState{
				{Name: "no binary", Reason: local.CheckBinaryMissing, Bring: func() func() {
					must(w.t, os.Rename(w.binary, w.binary+".away"))
					return func() { must(w.t, os.Rename(w.binary+".away", w.binary)) }
				}},
				{Name: "a binary without rights", Reason: local.CheckBinaryNotExecutable, Bring: func() func() {
					must(w.t, os.Chmod(w.binary, 0o644))
					return func() { must(w.t, os.Chmod(w.binary, 0o755)) }
				}},
				{Name: "a folder in place of the binary", Reason: local.CheckBinaryNotExecutable, Bring: func() func() {
					must(w.t, errors.Join(os.Rename(w.binary, w.binary+".away"), os.Mkdir(w.binary, 0o755)))
					return func() { must(w.t, errors.Join(os.Remove(w.binary), os.Rename(w.binary+".away", w.binary))) }
				}},
				{Name: "the folder away", Reason: local.CheckStateDirMissing, Bring: w.moveAway},
				{Name: "another folder", Reason: local.CheckStateDirReplaced, Bring: func() func() {
					back := w.moveAway()
					must(w.t, os.Mkdir(w.dir, 0o700))
					return func() { must(w.t, os.Remove(w.dir)); back() }
				}},
			},
			Hang: w.keepLocked,
		}
	})
}

// ownBinary gives the world an executable that may be taken away.
func (w *world) ownBinary() {
	w.t.Helper()
	own := w.dir + ".egress-proxy"
	data, err := os.ReadFile(binary)
	must(w.t, err)
	must(w.t, os.WriteFile(own, data, 0o755))
	w.binary = own
}

// keepLocked is another process that keeps the folder's lock. Where somebody has it already, it hangs anyhow.
func (w *world) keepLocked(string) (restore func()) {
	f, err := os.Open(w.dir)
	must(w.t, err)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		w.t.Fatalf("%v", err)
	}
	return sync.OnceFunc(func() { _ = f.Close() })
}

// holdStep pauses the next call that comes to the step.
func (w *world) holdStep(at string) (<-chan struct{}, func()) {
	reached, released := make(chan struct{}), make(chan struct{})
	var arrive sync.Once
	w.mu.Lock()
	w.deleteHold = func(step string) {
		if step == at {
			arrive.Do(func() { close(reached); <-released })
		}
	}
	w.mu.Unlock()
	return reached, sync.OnceFunc(func() { close(released) })
}
