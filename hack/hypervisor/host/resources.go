package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/egress-proxies/egress-proxies-operator/hack/hypervisor/image/guest"
)

// Names of what every host has; those of different hosts have nothing in common but the name.
const (
	pool    = "egress"
	network = "egress"
)

// Nameserver is an address of the machine that every guest can reach. Nobody answers there unless the command does.
const Nameserver = guest.Nameserver

// addNameserver gives the machine that address.
func addNameserver() error {
	if out, err := exec.Command("ip", "addr", "add", Nameserver+"/32", "dev", "lo").CombinedOutput(); err != nil {
		return fmt.Errorf("adding the address %s: %w: %s", Nameserver, err, out)
	}
	return nil
}

// gateway is the host's address in its network.
func (h host) gateway() string { return h.inNetwork(1) }

func (h host) inNetwork(last int) string { return fmt.Sprintf("10.77.%d.%d", h.number, last) }

// networkXML is a network as a machine of one's own has it. Names are asked of Nameserver, not of the world.
func (h host) networkXML() string {
	return fmt.Sprintf(`<network>
  <name>%s</name>
  <forward mode='nat'/>
  <bridge name='virbr%d' stp='off' delay='0'/>
  <dns><forwarder addr='%s'/></dns>
  <ip address='%s' netmask='255.255.255.0'>
    <dhcp><range start='%s' end='%s'/></dhcp>
  </ip>
</network>
`, network, h.number, Nameserver, h.gateway(), h.inNetwork(10), h.inNetwork(250))
}

// poolXML is a pool whose folder QEMU's user can pass through, but not list.
func poolXML() string {
	return fmt.Sprintf(`<pool type='dir'>
  <name>%s</name>
  <target>
    <path>%s</path>
    <permissions><mode>0711</mode></permissions>
  </target>
</pool>
`, pool, images)
}

// define makes network and pool; libvirtd starts them again whenever it starts.
func (h host) define(ctx context.Context) error {
	for _, r := range []struct{ kind, name, xml string }{
		{"net", network, h.networkXML()},
		{"pool", pool, poolXML()},
	} {
		file := h.own(r.kind + ".xml")
		if err := os.WriteFile(file, []byte(r.xml), 0o600); err != nil {
			return err
		}
		steps := [][]string{{r.kind + "-define", file}}
		if r.kind == "pool" {
			steps = append(steps, []string{"pool-build", r.name})
		}
		for _, args := range append(steps, []string{r.kind + "-start", r.name}, []string{r.kind + "-autostart", r.name}) {
			if err := h.virsh(ctx, args...); err != nil {
				return err
			}
		}
	}
	return nil
}
