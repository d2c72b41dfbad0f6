package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// grace is how long a process has between SIGTERM and SIGKILL.
const grace = 2 * time.Second

// machines are the processes that stand for running virtual machines. A process finds VM_PROJECT, VM_ZONE, VM_NAME, VM_ID,
// VM_ADDRESS (external), VM_INTERNAL_ADDRESS, VM_LABEL_<key> for each label, and VM_METADATA, a folder with a file for each
// key of the metadata, which may be too large for an environment.
type machines struct {
	ctx      context.Context //nolint:containedctx // that of the program
	command  string
	out, log io.Writer
	mu       sync.Mutex
	procs    map[uint64]*process
	all      sync.WaitGroup
}

type process struct {
	cmd  *exec.Cmd
	dir  string
	done chan struct{}
}

func newMachines(ctx context.Context, command string, out, log io.Writer) *machines {
	return &machines{ctx: ctx, command: command, out: out, log: log, procs: map[uint64]*process{}}
}

func (m *machines) running(vm gcpemulator.VM) {
	fmt.Fprintln(m.out, "running", vm.Zone, vm.Name, vm.ExternalIP)
	if m.command == "" || m.ctx.Err() != nil {
		return
	}
	p, err := m.start(vm)
	if err != nil {
		fmt.Fprintln(m.log, vm.Name+":", err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.procs[vm.ID] = p
}

func (m *machines) start(vm gcpemulator.VM) (*process, error) {
	dir, err := os.MkdirTemp("", "gcpemulator-"+vm.Name+"-")
	if err != nil {
		return nil, err
	}
	for key, value := range vm.Metadata { // keys are [-_a-zA-Z0-9]+, the emulator refuses others
		if err := os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("sh", "-c", m.command)
	cmd.Env = append(os.Environ(),
		"VM_PROJECT="+vm.Project, "VM_ZONE="+vm.Zone, "VM_NAME="+vm.Name, fmt.Sprint("VM_ID=", vm.ID),
		"VM_ADDRESS="+vm.ExternalIP, "VM_INTERNAL_ADDRESS="+vm.InternalIP, "VM_METADATA="+dir)
	for key, value := range vm.Labels {
		cmd.Env = append(cmd.Env, "VM_LABEL_"+key+"="+value)
	}
	cmd.Stdout, cmd.Stderr = m.log, m.log
	// A group of its own, so that what the shell starts ends with it, and an interrupt reaches us first.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = grace
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, dir: dir, done: make(chan struct{})}
	m.all.Go(func() {
		defer close(p.done)
		if err := cmd.Wait(); err != nil {
			fmt.Fprintln(m.log, vm.Name+":", err)
		}
	})
	return p, nil
}

func (m *machines) gone(vm gcpemulator.VM) {
	fmt.Fprintln(m.out, "gone", vm.Zone, vm.Name, vm.ExternalIP)
	m.mu.Lock()
	p := m.procs[vm.ID]
	delete(m.procs, vm.ID)
	m.mu.Unlock()
	if p != nil {
		m.all.Go(p.stop)
	}
}

// stop ends the process and whatever it has started.
func (p *process) stop() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(grace):
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.done
	_ = os.RemoveAll(p.dir)
}

// close ends all processes.
func (m *machines) close() {
	m.mu.Lock()
	left := m.procs
	m.procs = map[uint64]*process{}
	m.mu.Unlock()
	for _, p := range left {
		m.all.Go(p.stop)
	}
	m.all.Wait()
}
