package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// cloud is an emulated Compute Engine. Each of its VMs has an address on the loopback network, and what a VM would run, a
// forward proxy, runs as a process of this machine while the VM does.
type cloud struct {
	emulator *gcpemulator.Server
	over     chan struct{}
	settled  sync.WaitGroup

	mu      sync.Mutex
	running map[string]*exec.Cmd // by external address
	failed  error
}

const project = "project-a"

func (c *cloud) limit() time.Duration { return 15 * time.Second }
func (c *cloud) intro() string        { return "start an emulated Compute Engine" }
func (c *cloud) ending() string       { return "preempt one VM and see a new one Ready" }
func (c *cloud) things() string       { return "VMs, disks, firewall rules and processes" }

func (c *cloud) start(ctx context.Context) (err error) {
	c.running = map[string]*exec.Cmd{}
	var addresses []string
	for i := range 50 {
		addresses = append(addresses, fmt.Sprintf("127.0.82.%d", i+1))
	}
	e := gcpemulator.New(gcpemulator.Options{
		Projects: []string{project}, Addresses: addresses, OnRunning: c.boot, OnGone: c.halt,
		Delays: gcpemulator.Delays{
			Pending: 200 * time.Millisecond, Show: 200 * time.Millisecond, Insert: 800 * time.Millisecond, Staging: 500 * time.Millisecond,
			Boot: time.Second, Delete: time.Second, Stop: 500 * time.Millisecond, Global: 500 * time.Millisecond,
		},
	})
	if c.emulator, err = e.Listen(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	fmt.Printf("      %s\n", c.emulator.URL)
	c.over = make(chan struct{})
	c.settled.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-c.over:
				return
			case <-tick.C:
				c.emulator.Settle()
			}
		}
	})
	return nil
}

// boot starts what a VM's cloud-init would.
func (c *cloud) boot(vm gcpemulator.VM) {
	listen := net.JoinHostPort(vm.ExternalIP, vm.Labels["proxy-operator-port"])
	cmd := exec.Command(filepath.Join(binDir(), "egress-proxy"), "--listen", listen, "--exit-address", vm.ExternalIP, "--allow-destinations", "127.0.0.0/8")
	cmd.SysProcAttr = ownGroup()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		c.failed = errors.Join(c.failed, err)
		return
	}
	c.running[vm.ExternalIP] = cmd
}

func (c *cloud) halt(vm gcpemulator.VM) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, end(c.running[vm.ExternalIP]))
	delete(c.running, vm.ExternalIP)
}

func (c *cloud) entry() (name, config string) {
	return "cloud", fmt.Sprintf(`- name: cloud
  type: gcp
  gcp:
    project: %s
    endpoint: %s/compute/v1/
    anonymous: true
    provisioning: spot
    firewall: {manage: true, sourceRanges: [127.0.0.0/8]}
`, project, c.emulator.URL)
}

func (c *cloud) dress(spec *v1alpha1.ProxySpec) {
	spec.Placement = &v1alpha1.Placement{Zone: "europe-west1-b", MachineType: "e2-micro", Image: "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64"}
	spec.CloudInit = &v1alpha1.CloudInit{Inline: "#cloud-config\n# a real image would install and start a proxy here, on port ${PROXY_PORT}\n"}
}

func (c *cloud) end(p *v1alpha1.Proxy) (string, error) {
	if !c.emulator.Preempt(p.Status.ProviderID) {
		return "", fmt.Errorf("the emulator has no %s", p.Status.ProviderID)
	}
	return "preempted " + p.Status.ProviderID, nil
}

func (c *cloud) left() ([]string, error) {
	var out []string
	for _, l := range c.emulator.Leftovers() {
		out = append(out, l.ID)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for address := range c.running {
		out = append(out, "process at "+address)
	}
	return out, c.failed
}

func (c *cloud) stop() error {
	if c.emulator == nil {
		return nil
	}
	close(c.over)
	c.settled.Wait()
	errs := []error{c.emulator.Close()}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range c.running {
		errs = append(errs, end(cmd))
	}
	return errors.Join(errs...)
}
