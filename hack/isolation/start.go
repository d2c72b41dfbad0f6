//go:build linux

package isolation

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start starts this very program again as the first process of new namespaces, with env. The kernel kills it, and with it
// everything inside, when the calling thread ends: call it from a goroutine locked to its thread, and stay there.
func (r *Room) Start(env []string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{r.lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd, cmd.Start()
}

// EndWithGoRun asks the kernel for a SIGTERM when `go run`, if that is our parent, ends: it passes no signal on, and one
// that is killed would leave its program running. Of other parents the kernel would report the end of a mere thread.
func EndWithGoRun() error {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", os.Getppid()))
	if strings.TrimSpace(string(name)) != "go" {
		return nil
	}
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
}

// ExitCode is what a shell would report of a command that has ended with err: its code, or 128 and the signal's number. An
// error that is not of its end is returned.
func ExitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok {
		return statusCode(status), nil
	}
	return exit.ExitCode(), nil
}

func statusCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
