package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// start runs the process of r and waits until it listens and holds the record. When it does not come up in time it is
// killed.
func (p *Provider) start(ctx context.Context, r record) error {
	log, err := os.OpenFile(p.path(r.Name, logSuffix), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
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
	cmd := exec.Command(p.config.Binary, p.arguments(r)...) //nolint:gosec // the operator's own configuration
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
	if err := waitReady(ctx, ready); err != nil {
		_ = cmd.Process.Kill()
		<-ended
		return err
	}
	return nil
}

func (p *Provider) arguments(r record) []string {
	args := []string{
		"--listen=" + net.JoinHostPort(r.Listen.String(), strconv.Itoa(int(r.Port))),
		"--exit-address=" + r.Exit.String(),
		"--state-file=" + p.path(r.Name, recordSuffix),
		"--ready-fd=3", // the first of ExtraFiles
		"--shutdown-grace=1s",
	}
	if r.Authenticated {
		args = append(args, "--auth-file="+p.path(r.Name, authSuffix))
	}
	if len(p.config.AllowClients) > 0 {
		args = append(args, "--allow-clients="+join(p.config.AllowClients))
	}
	if len(p.config.AllowDestinations) > 0 {
		args = append(args, "--allow-destinations="+join(p.config.AllowDestinations))
	}
	return args
}

// waitReady reads the one line in which the process says how its start went.
func waitReady(ctx context.Context, ready *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = ready.Close() })
	defer stop()
	line, err := bufio.NewReaderSize(ready, 4096).ReadString('\n')
	line = strings.TrimSpace(line)
	switch {
	case line == "ready":
		return nil
	case line != "":
		return errors.New(strings.TrimPrefix(line, "error: "))
	case ctx.Err() != nil:
		return fmt.Errorf("the process did not listen in time: %w", ctx.Err())
	}
	return fmt.Errorf("the process ended before it listened: %w", err)
}

// holder returns the process that is the instance of name; pid is 0 when none runs.
func (p *Provider) holder(name string) (pid int, err error) {
	f, err := os.OpenFile(p.path(name, recordSuffix), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only asked
	pid, held, err := instancelock.Holder(f)
	if err != nil || !held {
		return 0, err
	}
	if pid == 0 {
		return 0, errors.New("the record is held by a process outside this process's view")
	}
	return pid, nil
}

func join(networks []netip.Prefix) string {
	texts := make([]string, len(networks))
	for i, n := range networks {
		texts[i] = n.String()
	}
	return strings.Join(texts, ",")
}
