package components

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// commandGrace is how long the command has for its own end when it is asked to.
const commandGrace = 20 * time.Second

// Run runs the command with env and this process's terminal, and returns its error as os/exec does. When ctx ends, the
// command gets SIGTERM and, after twenty seconds, SIGKILL.
func Run(ctx context.Context, argv, env []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = commandGrace
	return cmd.Run()
}

// TellEnds tells which processes have ended although nobody asked them to.
func TellEnds(program string, to io.Writer, processes ...*Process) {
	for _, p := range processes {
		if gone := p.UnexpectedEnd(); gone != nil {
			fmt.Fprintf(to, "%s: %v\n", program, gone)
		}
	}
}
