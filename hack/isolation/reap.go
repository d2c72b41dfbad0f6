//go:build linux

package isolation

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Init is the life of the namespaces' first process: it starts this very program once more, with env, reaps whatever is
// orphaned, passes on signals that ask for an end, and returns the exit code when its child ends. The caller then exits,
// which ends every process inside.
//
// It is a process of its own because reaping takes any child's exit status, also one that somebody waits for.
func Init(env []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for range signals {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if pid == cmd.Process.Pid {
			return statusCode(status), nil
		}
	}
}
