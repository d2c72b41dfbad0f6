package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readyPipe tells whoever started the process how its start went, once. A nil
// one tells nobody.
type readyPipe struct{ w io.WriteCloser }

// openReady takes over an inherited descriptor; -1 means none was given. Only a
// pipe or a socket is accepted, and before anything else is opened: a wrong
// number could otherwise hit a descriptor of ours.
func openReady(fd int) (*readyPipe, error) {
	if fd == -1 {
		return nil, nil
	}
	var st unix.Stat_t
	if fd < 3 {
		return nil, fmt.Errorf("--ready-fd %d: must be 3 or more", fd)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("--ready-fd %d: %w", fd, err)
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFIFO && kind != unix.S_IFSOCK {
		return nil, fmt.Errorf("--ready-fd %d: not a pipe or socket", fd)
	}
	unix.CloseOnExec(fd)
	return &readyPipe{w: os.NewFile(uintptr(fd), "ready")}, nil
}

func (p *readyPipe) ready() { p.tell("ready\n") }

func (p *readyPipe) failed(err error) { p.tell("error: " + oneLine(err) + "\n") }

// tell writes the first message and closes; later ones are dropped. A starter
// that has gone away is no reason to fail.
func (p *readyPipe) tell(message string) {
	if p == nil || p.w == nil {
		return
	}
	_, _ = io.WriteString(p.w, message)
	_ = p.w.Close()
	p.w = nil
}
