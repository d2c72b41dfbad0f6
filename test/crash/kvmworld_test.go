package crash

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	hostA = "hv-a"
	hostB = "hv-b"
	// lockWait is for how long a daemon may go on with a call whose caller has hung up.
	lockWait = 30 * time.Second
)

var (
	// The image that both hosts have, with the marker beside it that says how large a disk of it is.
	imageSum   = strings.Repeat("0f", 32)
	baseVolume = "epx-base-" + imageSum + ".001772366400.00000001.raw"
	baseMarker = baseVolume + ".ready"

	zoneHosts = map[string]string{"": hostA, "zone-a": hostA, "zone-b": hostB}
)

// hypervisors are two hosts with a libvirt daemon each. Mutating calls are effects.
type hypervisors struct {
	w       *world
	daemons map[string]*daemon
	current *process
	all     []*process
	hook    func(op string, ref provider.Ref) providertest.Fault
	picky   bool // the hook is asked about one call of a creation or deletion, by chance, not about all
	stall   *stall
	amid    int // before which later effect a call arrives that is on its way; 0 for when its time has come

	// rough: a call has come late, a process has slept, or somebody has undefined a domain.
	rough bool

	mu     sync.Mutex
	late   []*arrival
	on     map[guestKey]*guest
	up     map[string]guestKey // by address
	leases int
	dark   map[string]bool   // hosts that cannot be reached
	makers map[string]string // a domain's UUID by what the names of its volumes begin with
	told   []string
}

// hypervisor is what a host's daemon has to offer to a world: what operators reach, what is there, and what hands do. It is
// libvirttest.Daemon, or a real one.
type hypervisor interface {
	Dial() (net.Conn, error)
	Speak(net.Conn) (session.API, error)
	Domains() []libvirttest.Entry
	Volumes() []string
	Volume(name string) (content []byte, ok bool)
	Set(name string, state libvirt.DomainState, reason int32) bool
	Undefine(name string) bool
	Restart()
	AddVolume(name string, capacity uint64)
	RemoveVolume(name string)
	Lease(libvirt.NetworkDhcpLease)
}

// daemon is a host's, with what is known besides of it.
type daemon struct {
	hypervisor
	real      bool // it does itself what lower does for one in memory
	mu        sync.Mutex
	transient map[string]bool   // by UUID: domains that end when they are switched off
	sizes     map[string]uint64 // of volumes that have been filled
	failStart bool
	torn      bool // the next upload breaks off in its midst
}

type guestKey struct{ host, uuid string }

// guest is a domain that runs.
type guest struct {
	since time.Time
	ip    string
}

// arrival is a call on its way whose caller waits no longer.
type arrival struct {
	due    time.Time
	before int // the effects that come before it, where it is not for its time that it waits
	what   string
	op     string
	ref    provider.Ref
	makes  bool // it brings something into being
	do     func() error
}

// onKVM is the provider kvm in front of daemons in memory.
func onKVM() ground {
	return onHosts("hypervisors", func(string) *daemon { return &daemon{hypervisor: libvirttest.NewDaemon()} })
}

// onHosts is the provider kvm in front of any daemons.
func onHosts(name string, of func(host string) *daemon) ground {
	return ground{name, []visibility{
		{name: "at once", bySteps: true},
		{name: "calls arrive late", late: callTimeout - time.Second, bySteps: true},
		{name: "calls arrive as late as they can", late: callTimeout + lockWait - time.Second, bySteps: true},
	}, func(w *world) backend {
		c := &hypervisors{
			w: w, daemons: map[string]*daemon{}, on: map[guestKey]*guest{}, up: map[string]guestKey{}, dark: map[string]bool{},
			makers: map[string]string{}, picky: w.vis.chance,
		}
		for _, host := range []string{hostA, hostB} {
			d := of(host)
			d.transient, d.sizes = map[string]bool{}, map[string]uint64{}
			d.AddVolume(baseVolume, 1<<20)
			d.AddVolume(baseMarker, 1<<20)
			c.daemons[host] = d
		}
		return c
	}}
}

// passive keeps the clock from what runs beside the calls: whether a connection is alive is asked in real time, or it would be
// found dead whenever the clock jumps.
type passive struct{ clock.PassiveClock }

func (c *hypervisors) provider(w *world) provider.Provider {
	config := fmt.Sprintf("hosts: [{name: %s, socket: /run/a}, {name: %s, socket: /run/b}]\n", hostA, hostB) +
		fmt.Sprintf("images:\n  debian: {url: \"http://images.invalid/debian.raw\", sha256: %q, format: raw}\n", imageSum) +
		"machineTypes:\n  small: {vcpus: 1, memoryMiB: 64, diskGiB: 1, domainType: qemu, machine: pc}\n" +
		"clients: [192.0.2.0/24]\naddressSources: [lease]\n"
	block, err := registry.ParseBlock(kvm.Type, []byte(config))
	w.must(err)
	window := w.window()
	window.Clock = passive{w.clock}
	e := &process{c: c}
	e.kvm, err = kvm.NewWithSeams(provider.Options{Name: entry, Block: block, Owner: owner, Window: window}, kvm.Seams{
		Dial: func(h kvm.HostConfig) func(context.Context) (net.Conn, error) {
			return func(context.Context) (net.Conn, error) { return c.daemons[h.Name].Dial() }
		},
		Speak: func(h kvm.HostConfig) func(net.Conn) (session.API, error) { return e.speak(h.Name) },
	})
	w.must(err)
	e.Provider = e.kvm
	c.current = e
	c.all = append(c.all, e)
	return e
}

func (c *hypervisors) OnCall(hook func(op string, ref provider.Ref) providertest.Fault) {
	c.hook = hook
}

func (*hypervisors) id(zone, name string) string {
	return "hosts/" + zoneHosts[zone] + "/domains/" + name
}

func (*hypervisors) placement(zone string) *v1alpha1.Placement {
	return &v1alpha1.Placement{Zone: zoneHosts[zone], MachineType: "small", Image: "debian"}
}

func (c *hypervisors) close() {
	for _, e := range c.all {
		_ = e.kvm.Close()
	}
}

func (c *hypervisors) unread(zone string, unread bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dark[zoneHosts[zone]] = unread
}

func (c *hypervisors) InFlight() int {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.late)
}

func (c *hypervisors) history() []string { return c.told }

// settle lets happen what the time has come for.
func (c *hypervisors) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		next := -1
		for i, a := range c.late {
			if !a.due.After(c.w.clock.Now()) && (next < 0 || a.due.Before(c.late[next].due)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		c.arrive(next, c.late[next].due)
	}
	c.boot(c.w.clock.Now())
}

// arrive lets a call on its way reach its daemon. It needs mu.
func (c *hypervisors) arrive(i int, now time.Time) {
	a := c.late[i]
	c.late, c.rough = slices.Delete(c.late, i, i+1), true
	c.boot(now)
	c.tell(now, "late: "+a.what, a.do())
	c.boot(now)
}

// follow lets the calls arrive whose turn it is before an effect.
func (c *hypervisors) follow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 0; i < len(c.late); {
		a := c.late[i]
		if a.before > 0 {
			if a.before--; a.before == 0 {
				c.arrive(i, c.w.clock.Now())
				continue
			}
		}
		i++
	}
}

func (c *hypervisors) tell(now time.Time, what string, err error) {
	c.told = append(c.told, fmt.Sprintf("%s %s: %v", now.Format("15:04:05.000"), what, err))
}

// boot gives an address to each guest that has run for long enough. It needs mu.
func (c *hypervisors) boot(now time.Time) {
	running := map[guestKey]bool{}
	for _, host := range []string{hostA, hostB} {
		for _, dom := range c.daemons[host].Domains() {
			if !active(dom) {
				continue
			}
			k := guestKey{host, dom.UUID}
			running[k] = true
			if c.on[k] == nil {
				c.on[k] = &guest{since: now}
			}
			if g := c.on[k]; g.ip == "" && !now.Before(g.since.Add(bootDelay)) {
				c.leases++
				g.ip = fmt.Sprintf("10.0.%d.%d", c.leases/250, 1+c.leases%250)
				c.up[g.ip] = k
				c.daemons[host].Lease(leaseOf(recordIn(dom).MAC, g.ip, c.leases))
			}
		}
	}
	for k := range c.on {
		if !running[k] {
			delete(c.on, k)
		}
	}
}

// Serving needs a guest that has found its cloud-init data.
func (c *hypervisors) Serving(ip string, port int32) string {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.up[ip]
	if !ok || c.on[k] == nil || c.on[k].ip != ip {
		return ""
	}
	for _, dom := range c.daemons[k.host].Domains() {
		if dom.UUID == k.uuid && recordIn(dom).Port == fmt.Sprint(port) && c.daemons[k.host].whole(dom) {
			return k.uuid
		}
	}
	return ""
}
