package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// process is a child of the orchestrator, the same program in another role. It obeys one command at a time.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	enc *json.Encoder
}

// start starts a role and reads what it says once it is ready.
func start(ctx context.Context, ready any, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=2")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.enc, p.out = json.NewEncoder(p.in), json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, p.hear(ready)
}

// tell sends a command and reads the answer.
func (p *process) tell(command, answer any) error {
	if err := p.enc.Encode(command); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Args[1], err)
	}
	return p.hear(answer)
}

func (p *process) hear(answer any) error {
	if err := p.out.Decode(answer); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Args[1], err)
	}
	return nil
}

// end closes the process's standard input and waits for it.
func (p *process) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// obey says ready and then answers the commands on standard input until it ends.
func obey[Command, Answer any](ready any, do func(Command) (Answer, error)) error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := out.Encode(ready); err != nil {
		return err
	}
	for {
		var c Command
		if err := in.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer, err := do(c)
		if err != nil {
			return err
		}
		if err := out.Encode(answer); err != nil {
			return err
		}
	}
}

// nothing is a command or an answer without content.
type nothing struct{}

// cpuTime is what all threads of this process have used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
