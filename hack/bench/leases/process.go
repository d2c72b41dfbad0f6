package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// process is a child of the orchestrator, the same program in another role. It obeys one command at a time.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
	enc *json.Encoder
}

func start(ctx context.Context, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.enc, p.out = json.NewEncoder(p.in), json.NewDecoder(out)
	return p, p.cmd.Start()
}

// tell sends a command, when there is one, and reads the answer.
func (p *process) tell(command, answer any) error {
	if command != nil {
		if err := p.enc.Encode(command); err != nil {
			return fmt.Errorf("%v: %w", p.cmd.Args[1:], err)
		}
	}
	if err := p.out.Decode(answer); err != nil {
		return fmt.Errorf("%v: %w", p.cmd.Args[1:], err)
	}
	return nil
}

// end closes the process's standard input and waits for it.
func (p *process) end() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
