package walk

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long one command may take.
	patience = 2 * time.Minute
	// ready is how long a command that stays may take until it is up; on a fresh machine it compiles.
	ready = 10 * time.Minute
)

// shell is one bash that commands are typed into.
type shell struct {
	in    io.Writer
	lines chan string
	mark  string
}

// newShell starts a shell that ends with the test, with whatever still runs in it.
func newShell(t *testing.T, dir string, env []string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "-o", "pipefail")
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{in: in, lines: make(chan string), mark: rand.Text()}
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		go func() {
			for range s.lines { // until the reader has ended
			}
		}()
		_ = cmd.Wait()
	})
	return s
}

// run types a command and returns what it prints. One that fails is an error.
func (s *shell) run(ctx context.Context, command string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// What reads the standard input shall not eat the next command. The mark begins a line whatever the output ends with.
	if _, err := fmt.Fprintf(s.in, "{\n%s\n} </dev/null\nprintf '\\n%s %%s\\n' $?\n", command, s.mark); err != nil {
		return nil, err
	}
	var out []string
	for {
		select {
		case <-ctx.Done():
			return out, fmt.Errorf("it has not ended within %s", patience)
		case line, ok := <-s.lines:
			if !ok {
				return out, fmt.Errorf("the shell has ended")
			}
			code, done := strings.CutPrefix(line, s.mark+" ")
			if !done {
				out = append(out, line)
				continue
			}
			if n := len(out); n > 0 && out[n-1] == "" {
				out = out[:n-1] // the one before the mark
			}
			if n, err := strconv.Atoi(code); err != nil || n != 0 {
				return out, fmt.Errorf("it ended with %s", code)
			}
			return out, nil
		}
	}
}

// terminal runs a command that stays, and interrupts it when the test ends, as Ctrl-C does.
func terminal(t *testing.T, dir string, env []string, st step) error {
	t.Helper()
	cmd := exec.Command("bash", "-c", st.command)
	cmd.Dir, cmd.Env = dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &screen{words: st.stays, seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			t.Errorf("line %d: %s: an interrupt did not end it within %s:\n%s", st.line, st.command, patience, said)
		}
		if t.Failed() {
			t.Logf("line %d: %s\n%s", st.line, st.command, said)
		}
	})
	select {
	case <-said.seen:
		return nil
	case err := <-ended:
		ended <- err
		return fmt.Errorf("it ended before it said %q: %w", st.stays, err)
	case <-time.After(ready):
		return fmt.Errorf("it has not said %q within %s", st.stays, ready)
	}
}

// screen keeps what a terminal shows, and tells when it has shown the words.
type screen struct {
	words string
	seen  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	text  bytes.Buffer
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if strings.Contains(s.text.String(), s.words) {
		s.once.Do(func() { close(s.seen) })
	}
	return len(p), nil
}

// String returns what it has shown.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
