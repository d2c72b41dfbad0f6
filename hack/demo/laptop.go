package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

// laptop runs proxies as processes on this machine.
type laptop struct{ d *demo }

// addresses on the loopback network, one for each part: each is listen and exit address of its proxy.
var managedAddresses = []string{"127.0.81.1", "127.0.81.2", "127.0.81.3", "127.0.81.4"}

func (l laptop) start(context.Context) error { return nil }
func (l laptop) stop() error                 { return nil }
func (l laptop) limit() time.Duration        { return 3 * time.Second }
func (l laptop) intro() string               { return "" }
func (l laptop) ending() string              { return "kill one proxy process and see a new one Ready" }
func (l laptop) things() string              { return "processes and files" }

func (l laptop) stateDir() string { return filepath.Join(l.d.dir, "proxies") }

func (l laptop) entry() (name, config string) {
	var b strings.Builder
	fmt.Fprintf(&b, "- name: laptop\n  type: local\n  local:\n    stateDir: %s\n    allowDestinations: [127.0.0.0/8]\n    pool:\n", l.stateDir())
	for _, a := range managedAddresses {
		fmt.Fprintf(&b, "    - listen: %s\n", a)
	}
	return "laptop", b.String()
}

func (l laptop) dress(*v1alpha1.ProxySpec) {}

// end ends the process of one proxy as the kernel's OOM killer would.
func (l laptop) end(p *v1alpha1.Proxy) (string, error) {
	pid, err := l.pidOf(string(p.UID))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("killed process %d of %s", pid, p.Name), syscall.Kill(pid, syscall.SIGKILL)
}

// pidOf asks the kernel which process holds the record of the instance.
func (l laptop) pidOf(uid string) (int, error) {
	f, err := os.OpenFile(filepath.Join(l.stateDir(), provider.NameFromUID(uid)+".json"), os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // only asked
	pid, held, err := instancelock.Holder(f)
	if err == nil && (!held || pid <= 0) {
		err = fmt.Errorf("no process holds %s", filepath.Base(f.Name()))
	}
	return pid, err
}

// left looks at the process table and at files.
func (l laptop) left() ([]string, error) {
	tables, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, path := range tables {
		cmdline, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		args := bytes.Split(cmdline, []byte{0})
		if filepath.Base(string(args[0])) != "egress-proxy" || !strings.Contains(string(cmdline), l.stateDir()) {
			continue
		}
		if _, err := strconv.Atoi(strings.Split(path, "/")[2]); err != nil {
			return nil, err
		}
		out = append(out, "process "+strings.Split(path, "/")[2])
	}
	files, err := filepath.Glob(filepath.Join(l.stateDir(), "*"))
	return append(out, files...), err
}
