package components

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

const stopTimeout = 30 * time.Second

// Stop ends the process with SIGTERM and returns when it has ended.
func (p *Process) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGTERM, false) }

// Kill ends the process with SIGKILL and returns when it has ended.
func (p *Process) Kill(ctx context.Context) error {
	return p.end(ctx, syscall.SIGKILL, p.KillsDescendants)
}

func (p *Process) end(ctx context.Context, signal os.Signal, all bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.alive()
	if err != nil {
		return err
	}
	var rest []int
	if all {
		rest = descendants(r.cmd.Process.Pid)
	}
	if err := r.cmd.Process.Signal(signal); err != nil {
		return err
	}
	_ = r.cmd.Process.Signal(syscall.SIGCONT) // a paused one would not take note of an end that it is asked for
	for _, pid := range rest {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	select {
	case <-r.ended:
		p.running = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", p.Name, ctx.Err())
	}
}

// Pause stops the process where it is, as a host does that hangs: whoever asks it gets no answer.
func (p *Process) Pause(context.Context) error { return p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume(context.Context) error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(signal os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.alive()
	if err != nil {
		return err
	}
	return r.cmd.Process.Signal(signal)
}

// alive returns the present life, or an error when there is none.
func (p *Process) alive() (*run, error) {
	if p.running == nil || p.running.over() {
		return nil, fmt.Errorf("%s is not running", p.Name)
	}
	return p.running, nil
}

// UnexpectedEnd returns why the process ended, nil while it runs or when it was ended on purpose.
func (p *Process) UnexpectedEnd() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || !p.running.over() {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %w", p.Name, p.running.err)
}
