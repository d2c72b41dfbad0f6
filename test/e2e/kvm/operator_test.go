//go:build e2e

package kvm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	epx "github.com/egress-proxies/egress-proxies-operator/pkg/client"
)

// operator is the operator's process. Restarted it has the same addresses.
type operator struct {
	t         *testing.T
	cmd       *exec.Cmd
	log       string
	providers string
	api       string
	ended     chan error
}

func (r *rig) config() string {
	return fmt.Sprintf(`providers:
- name: hypervisor
  type: kvm
  kvm:
    hosts:
    - name: hv1
      address: %s
      user: %s
      keyFile: %s
      knownHostsFile: %s
      socket: %s
      pool: %s
      network: %s
    images:
      debian: {url: "%s/debian.qcow2", sha256: %s}
    machineTypes:
      small: {vcpus: 1, memoryMiB: 512, diskGiB: 4, domainType: qemu, machine: pc}
`, os.Getenv("E2E_KVM_ADDRESS"), os.Getenv("E2E_KVM_USER"), os.Getenv("E2E_KVM_KEY_FILE"), os.Getenv("E2E_KVM_KNOWN_HOSTS_FILE"),
		os.Getenv("E2E_KVM_SOCKET"), os.Getenv("E2E_KVM_POOL"), os.Getenv("E2E_KVM_NETWORK"), r.files.url, os.Getenv("E2E_KVM_IMAGE_SHA256"))
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	r := shared
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o := &operator{t: t, log: filepath.Join(r.dir, "operator.log"), providers: filepath.Join(r.dir, "providers.yaml"), api: l.Addr().String()}
	must(t, l.Close())
	must(t, os.WriteFile(o.providers, []byte(r.config()), 0o600))
	t.Cleanup(func() {
		o.kill()
		if t.Failed() {
			text, _ := os.ReadFile(o.log)
			lines := strings.Split(string(text), "\n")
			t.Logf("the end of the operator's log:\n%s", strings.Join(lines[max(0, len(lines)-80):], "\n"))
		}
	})
	o.start()
	return o
}

func (o *operator) start() {
	o.t.Helper()
	out, err := os.OpenFile(o.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(o.t, err)
	defer out.Close()
	o.cmd = exec.Command(shared.operator,
		"--providers-config", o.providers, "--discovery-bind-address", o.api, "--health-probe-bind-address", "127.0.0.1:0",
		"--metrics-bind-address", "0", "--drift-poll", "2s", "--provisioning-poll", "2s", "--deletion-poll", "2s", "--drain-timeout", "10s",
		"--max-replacing", "100%", "--external-allow-cidrs", "198.51.100.0/24", "--log-level", "2")
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+shared.kubeconfig, "DISCOVERY_TOKEN="+token)
	o.cmd.Stdout, o.cmd.Stderr = out, out
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(o.t, o.cmd.Start())
	o.ended = make(chan error, 1)
	go func(c *exec.Cmd, ended chan<- error) { ended <- c.Wait() }(o.cmd, o.ended)
}

// kill ends the process as the OOM killer would.
func (o *operator) kill() {
	if o.cmd == nil {
		return
	}
	_ = o.cmd.Process.Kill()
	<-o.ended
	o.cmd = nil
}

// stop ends it in order.
func (o *operator) stop() {
	o.t.Helper()
	must(o.t, o.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-o.ended:
		must(o.t, err)
	case <-time.After(40 * time.Second):
		o.t.Fatal("the operator does not end")
	}
	o.cmd = nil
}

func (o *operator) crawler() *epx.Client {
	o.t.Helper()
	c, err := epx.New(epx.Options{BaseURL: "http://" + o.api, Token: token})
	must(o.t, err)
	o.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// poll tries f until it returns "".
func poll(ctx context.Context, limit time.Duration, f func() (complaint string)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		complaint := f()
		if complaint == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New(complaint)
		case <-tick.C:
		}
	}
}

// wait is poll for tests. It returns how long it took.
func wait(t *testing.T, limit time.Duration, what string, f func() (complaint string)) time.Duration {
	t.Helper()
	began := time.Now()
	if err := poll(t.Context(), limit, f); err != nil {
		t.Fatalf("%s: not within %s: %v", what, limit, err)
	}
	return time.Since(began).Round(100 * time.Millisecond)
}

// proved prints what a test has shown.
func proved(t *testing.T, format string, args ...any) {
	t.Helper()
	fmt.Printf("proved: %s\n", fmt.Sprintf(format, args...))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
