package components

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

// StartTimeout is how long a component may take to get ready.
const StartTimeout = 3 * time.Minute

// Process is one component. It can be ended and started again, by one caller at a time.
type Process struct {
	Name string
	Path string
	Args []string
	Logs string // the folder of its log
	// Ready says why the running process is not ready yet.
	Ready func(context.Context) error
	// KillsDescendants makes Kill end also what the process has started, except what has made itself independent of it.
	KillsDescendants bool

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
func (p *Process) Start(ctx context.Context) error {
	r, err := p.launch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, StartTimeout)
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		select {
		case <-r.ended:
			return false, fmt.Errorf("%s has ended: %w", p.Name, r.err)
		default:
		}
		last = p.Ready(ctx)
		return last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%s does not get ready: %w", p.Name, last)
	}
	return err
}

func (p *Process) launch() (*run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running != nil && !p.running.over() {
		return nil, fmt.Errorf("%s is running", p.Name)
	}
	// The folder may have logs of an earlier run; those of one process follow each other.
	how := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !p.launched {
		how |= os.O_TRUNC
	}
	log, err := os.OpenFile(filepath.Join(p.Logs, p.Name+".log"), how, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process writes, not we
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	// A terminal's interrupt is for the command, not for what it runs in.
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

func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}
