package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = 30 * time.Second
)

// process is one component. It can be ended and started again, by one caller at a time.
type process struct {
	name  string
	path  string
	args  []string
	logs  string // the folder of its log
	ready func(context.Context) error

	mu       sync.Mutex
	running  *run // nil while it is meant not to run
	launched bool // at least once
}

// run is one life of a process.
type run struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // why, once ended is closed
}

// Start starts the process and returns when it is ready. When it does not get ready, it may be running.
func (p *process) Start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.ended:
			return false, fmt.Errorf("%s has ended: %w", p.name, r.err)
		default:
		}
		last = p.ready(ctx)
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s does not get ready: %w", p.name, last)
	}
	return err
}

func (p *process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil && !p.running.over() {
		return nil, fmt.Errorf("%s is running", p.name)
	}
	// The folder may have logs of another cluster; those of one process follow each other.
	how := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !p.launched {
		how |= os.O_TRUNC
	}
	log, err := os.OpenFile(filepath.Join(p.logs, p.name+".log"), how, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process writes, not we
	cmd := exec.Command(p.path, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	// A terminal's interrupt is for the command, not for its cluster.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r := &run{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if r.err = cmd.Wait(); r.err == nil {
			r.err = errors.New("exit status 0")
		}
	}()
	p.running, p.launched = r, true
	return r, nil
}

// Stop ends the process with SIGTERM and returns when it has ended.
func (p *process) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGTERM) }

// Kill ends the process with SIGKILL and returns when it has ended.
func (p *process) Kill(ctx context.Context) error { return p.end(ctx, syscall.SIGKILL) }

func (p *process) end(ctx context.Context, signal os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.running
	if r == nil || r.over() {
		return fmt.Errorf("%s is not running", p.name)
	}
	if err := r.cmd.Process.Signal(signal); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	select {
	case <-r.ended:
		p.running = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", p.name, ctx.Err())
	}
}

// unexpectedEnd returns why the process ended, nil while it runs or when it was ended on purpose.
func (p *process) unexpectedEnd() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil || !p.running.over() {
		return nil
	}
	return fmt.Errorf("%s ended by itself: %w", p.name, p.running.err)
}

func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}
