package scene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// replica is a running operator.
type replica struct {
	cmd                  *exec.Cmd
	log                  string
	api, metrics, probes string // host:port
	ended                chan error
}

// stopTimeout is how long an operator may take to end before it is killed.
const stopTimeout = 40 * time.Second

func (s *Scene) startReplica(name string) (*replica, error) {
	r := &replica{log: filepath.Join(s.dir, name+".log"), ended: make(chan error, 1)}
	for _, to := range []*string{&r.api, &r.metrics, &r.probes} {
		address, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		*to = address
	}
	log, err := os.Create(r.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the operator writes, not we
	r.cmd = exec.Command(filepath.Join(s.bin, "operator"),
		"--providers-config", s.path("providers.yaml"), "--token-file", s.path("tokens.yaml"), "--require-auth",
		"--discovery-bind-address", r.api, "--metrics-bind-address", r.metrics, "--metrics-secure=false",
		"--discovery-tls-cert-file", s.path("tls.crt"), "--discovery-tls-key-file", s.path("tls.key"), "--health-probe-bind-address", r.probes,
		"--leader-elect", "--leader-election-lease-duration=5s", "--leader-election-namespace=default",
		"--drift-poll=1s", "--provider-check-interval=2s", "--gc-interval=10s", "--gc-min-age=1m", "--drain-timeout=3s", "--cooldown-window=8s", "--health-tick=200ms",
		"--min-report-interval=1s", "--quota-retry=3s", "--judge-url", s.origin.url+"/judge", "--external-allow-cidrs=127.0.0.0/8", "--log-level=1",
	)
	r.cmd.Env = append(os.Environ(), "KUBECONFIG="+s.path("kubeconfig"), "DISCOVERY_TOKEN="+s.token)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	// A terminal's interrupt is for this program, which ends the operator once its proxies are gone.
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { r.ended <- r.cmd.Wait() }()
	return r, nil
}

// answers waits until GET path of the API has that status.
func (s *Scene) answers(ctx context.Context, r *replica, path string, status int) error {
	return until(ctx, time.Minute, func(ctx context.Context) error {
		code, err := s.call(ctx, r, http.MethodGet, path, "")
		if err == nil && code != status {
			err = fmt.Errorf("GET %s: %d", path, code)
		}
		return err
	})
}

// stop ends the process and returns how it ended, with its last words.
func (r *replica) stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	timer := time.AfterFunc(stopTimeout, func() { _ = r.cmd.Process.Kill() })
	defer timer.Stop()
	if err := <-r.ended; err != nil {
		return fmt.Errorf("an operator ended with %w; %s", err, r.tail())
	}
	return nil
}

func (r *replica) tail() string {
	data, _ := os.ReadFile(r.log)
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return "its last lines:\n" + string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// FreeAddress returns an address on the loopback interface at which nobody listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
