package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxReport bounds in bytes what a process may say about its start.
const maxReport = 1024

// start runs the process of r and waits until it listens and holds the record. When it does not come up in time it is
// killed.
func (p *Provider) start(ctx context.Context, r record) error {
	log, err := p.folder.OpenFile(r.Name+logSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child writes, not we
	ready, child, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close() //nolint:errcheck // only read

	// Not CommandContext: the process outlives the call, and the operator.
	cmd := exec.Command(p.config.Binary, p.arguments(r)...) //nolint:gosec,noctx // the operator's own configuration; no context, as above
	cmd.Dir, cmd.Env = p.dir, []string{}                    // nothing of the operator's environment is the proxy's business
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{child}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = child.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.config.Binary, err)
	}
	ended := make(chan struct{})
	go func() { // reaps the child, now or when it ends one day
		_ = cmd.Wait()
		close(ended)
	}()
	p.step("started")
	if err := waitReady(ctx, ready); err != nil {
		_ = cmd.Process.Kill()
		<-ended
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the process ended before it listened: %s", cmd.ProcessState)
		}
		return err
	}
	return nil
}

func (p *Provider) arguments(r record) []string {
	args := []string{
		"--listen=" + net.JoinHostPort(r.Listen.String(), strconv.Itoa(int(r.Port))),
		"--exit-address=" + r.Exit.String(),
		stateFlag + filepath.Join(p.dir, r.Name+recordSuffix),
		"--ready-fd=3", // the first of ExtraFiles
		"--shutdown-grace=1s",
	}
	if r.Authenticated {
		args = append(args, "--auth-file="+filepath.Join(p.dir, r.Name+authSuffix))
	}
	if len(p.config.AllowClients) > 0 {
		args = append(args, "--allow-clients="+join(p.config.AllowClients))
	}
	if len(p.config.AllowDestinations) > 0 {
		args = append(args, "--allow-destinations="+join(p.config.AllowDestinations))
	}
	return args
}

// waitReady reads the one line in which the process says how its start went. It is io.EOF when the process says nothing.
func waitReady(ctx context.Context, ready *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = ready.Close() })
	defer stop()
	line, err := bufio.NewReader(io.LimitReader(ready, maxReport)).ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case line == "ready":
		return nil
	case line != "":
		return errors.New(strings.ToValidUTF8(strings.TrimPrefix(line, "error: "), "?"))
	case ctx.Err() != nil:
		return fmt.Errorf("the process did not listen in time: %w", ctx.Err())
	}
	return err
}

func join(networks []netip.Prefix) string {
	texts := make([]string, len(networks))
	for i, n := range networks {
		texts[i] = n.String()
	}
	return strings.Join(texts, ",")
}
