//go:build linux

package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// helperEnv makes the test binary another operator's process: it reads a job from its standard input and works on it.
const helperEnv = "EPX_LOCAL_TEST_HELPER"

// job is what a helper does; it answers each step with one line of JSON.
type job struct {
	// Do is create, delete, cycle (create and delete without end), check or hold (lock Path as a process would).
	Do     string
	Path   string
	Config string
	Now    time.Time
	Reqs   []provider.CreateRequest
	Refs   []provider.Ref
	// As, where not 0, is the user that the helper becomes once its provider is made.
	As int
	// DieAt is the step at which the helper kills itself, "done" for the end.
	DieAt string
}

// answer is the outcome of one call.
type answer struct{ Class, Text string }

func help() int {
	var j job
	in := json.NewDecoder(os.Stdin)
	if err := in.Decode(&j); err != nil {
		fmt.Println(err)
		return 1
	}
	out := json.NewEncoder(os.Stdout)
	if j.Do == "hold" {
		f, err := os.OpenFile(j.Path, os.O_RDWR, 0)
		if err == nil {
			err = instancelock.Hold(f, j.Path)
		}
		_ = out.Encode(answerOf(err))
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(f)
		return 0
	}
	p, err := open(j.Config, "hosts", owner, provider.Window{
		Clock: clocktesting.NewFakePassiveClock(j.Now), CallTimeout: 30 * time.Second, Skew: 5 * time.Second,
	})
	if err != nil {
		_ = out.Encode(answerOf(err))
		return 1
	}
	if j.As != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(j.As), syscall.Setuid(j.As)); err != nil {
			_ = out.Encode(answerOf(err))
			return 1
		}
	}
	p.OnStep(func(step string) { dieAt(j.DieAt, step) })
	_ = out.Encode(answer{Class: "ready"})
	var begin struct{}
	if err := in.Decode(&begin); err != nil {
		return 0
	}
	if j.Do == "check" {
		s := p.Check(context.Background())[0]
		_ = out.Encode(answer{s.Reason, s.Message})
	}
	for again := true; again; again = j.Do == "cycle" {
		for i, ref := range j.Refs {
			if j.Do != "delete" {
				_ = out.Encode(answerOf(p.Create(context.Background(), j.Reqs[i], ref)))
			}
			if j.Do != "create" {
				_ = out.Encode(answerOf(p.Delete(context.Background(), ref)))
			}
		}
	}
	dieAt(j.DieAt, "done")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

func dieAt(step, now string) {
	if step == now {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func answerOf(err error) answer {
	if err == nil {
		return answer{Class: "ok"}
	}
	return answer{provider.ClassName(err), err.Error()}
}

// helper is a running helper process.
type helper struct {
	w   *world
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// start runs a helper and returns once it is ready to begin.
func (w *world) start(j job) *helper {
	w.t.Helper()
	j.Config, j.Now = w.config(), w.clock.Now()
	self, err := os.Executable()
	must(w.t, err)
	h := &helper{w: w, cmd: exec.Command(self)}
	h.cmd.Env = append(os.Environ(), helperEnv+"=1")
	h.in, err = h.cmd.StdinPipe()
	must(w.t, err)
	out, err := h.cmd.StdoutPipe()
	must(w.t, err)
	h.out = json.NewDecoder(out)
	must(w.t, h.cmd.Start())
	w.t.Cleanup(h.kill)
	must(w.t, json.NewEncoder(h.in).Encode(j))
	if a, err := h.next(); err != nil || (a.Class != "ready" && a.Class != "ok") {
		w.t.Fatalf("helper: %+v, %v", a, err)
	}
	return h
}

// begin lets the helper do its job.
func (h *helper) begin() *helper {
	h.w.t.Helper()
	_, err := io.WriteString(h.in, "{}\n")
	must(h.w.t, err)
	return h
}

// next returns the helper's next answer, an error when it has died.
func (h *helper) next() (a answer, err error) {
	stuck := time.AfterFunc(patience, func() { _ = h.cmd.Process.Kill() })
	defer stuck.Stop()
	err = h.out.Decode(&a)
	return a, err
}

// ended waits for the helper's own end.
func (h *helper) ended() {
	for {
		if _, err := h.next(); err != nil {
			break
		}
	}
	_ = h.cmd.Wait()
}

func (h *helper) kill() {
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait()
	}
}
