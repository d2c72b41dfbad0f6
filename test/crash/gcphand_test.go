package crash

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// Instances puts VMs and the disks of their names together. A disk that is left goes by its VM's number.
func (c *compute) Instances() []providertest.Leftover {
	all, disks := map[string]providertest.Leftover{}, map[string]string{}
	for _, l := range c.Leftovers() { // disks come before instances
		number, part := strconv.FormatUint(l.Number, 10), path.Base(path.Dir(l.ID))
		in := providertest.Leftover{ID: path.Join(path.Dir(path.Dir(l.ID)), "instances", path.Base(l.ID)), Pending: l.Pending, Deleting: l.Deleting}
		in.Marks, _ = provider.MarksFromMap(l.Labels)
		switch part {
		case "disks":
			disks[in.ID] = number
			in.Identity = cmp.Or(c.makers[number], number)
		case "instances":
			in.Identity, c.makers[disks[in.ID]] = number, number
		default:
			continue
		}
		in.Parts = append(all[in.ID].Parts, part)
		all[in.ID] = in
	}
	return slices.SortedFunc(maps.Values(all), func(a, b providertest.Leftover) int { return cmp.Compare(a.ID, b.ID) })
}

func (c *compute) others() (all []string) {
	for _, l := range c.Leftovers() {
		if path.Base(path.Dir(l.ID)) == "firewalls" {
			all = append(all, l.ID)
		}
	}
	return all
}

func (c *compute) history() []string { return c.seen }

func (c *compute) runs(vm gcpemulator.VM) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up[vm.ExternalIP] = serving{strconv.FormatUint(vm.ID, 10), vm.Labels["proxy-operator-port"]}
}

func (c *compute) gone(vm gcpemulator.VM) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.up, vm.ExternalIP)
}

func (c *compute) Serving(ip string, port int32) string {
	c.Settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.up[ip]; s.port == fmt.Sprint(port) {
		return s.identity
	}
	return ""
}

func (c *compute) Stop(id, _ string) bool { return c.Emulator.Stop(id) }

func (c *compute) Terminate(id string) bool { return c.Preempt(id) }

func (c *compute) Confuse(id string) bool { return c.SetStatus(id, "CONTEMPLATING") }

// Start restarts the VM, where it is to be seen and not on its way out.
func (c *compute) Start(id string) bool {
	return c.shown(id) && c.SetStatus(id, "TERMINATED") && c.Emulator.Start(id)
}

func (c *compute) LoseMain(id string) bool { return c.removable(id) && c.Emulator.LoseMain(id) }

func (c *compute) Vanish(id string) bool { return c.removable(id) && c.Emulator.Vanish(id) }

func (c *compute) removable(id string) bool { return c.shown(id) && !c.clock.Now().Before(c.failing) }

func (c *compute) shown(id string) bool {
	return slices.ContainsFunc(c.Instances(), func(l providertest.Leftover) bool { return l.ID == id && !l.Pending && !l.Deleting })
}

func (c *compute) unread(zone string, unread bool) {
	how := gcpemulator.Reachable
	if unread {
		how = gcpemulator.ScopeFails
	}
	c.SetUnreachable(project, zones[zone], how)
}
