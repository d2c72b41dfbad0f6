package libvirttest

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// Daemon is a libvirt daemon in memory with one pool and one network. It does at once what it is asked to; guests get an address
// as soon as Boot is called. What it refuses, and with which code, is as libvirt 9.0 does it, of which the same tests are
// run against a real one.
type Daemon struct {
	mu      sync.Mutex
	uuid    string
	domains map[libvirt.UUID]*domain
	volumes map[string]*volume
	leases  []libvirt.NetworkDhcpLease
	next    int
	freeKiB uint64
	room    uint64
	stats   []libvirt.NodeGetMemoryStats // instead of the ones with freeKiB
	noStats bool
	pool    string // its description, where it is not the usual one
	state   libvirt.StoragePoolState
	// destroyed are the flags with which domains were ended.
	destroyed []libvirt.DomainDestroyFlagsValues
}

type domain struct {
	libvirt.Domain
	xml      string
	metadata string // our element's
	mac      string
	disks    []string
	state    libvirt.DomainState
	reason   int32
	// transient is one that was undefined while it ran.
	transient bool
	keeps     libvirt.DomainUndefineFlagsValues
	answers   map[libvirt.DomainInterfaceAddressesSource][]libvirt.DomainInterface
}

type volume struct {
	name     string
	capacity uint64
	content  []byte
	backing  string
	filled   uint64 // besides the content
	format   string
}

// The names of what a daemon has.
const (
	Pool       = "default"
	Network    = "default"
	PoolFolder = "/var/lib/libvirt/images"
)

// NewDaemon has 16 GiB of memory and 1 TiB in its pool.
func NewDaemon() *Daemon {
	return &Daemon{
		uuid: uuid.NewString(), domains: map[libvirt.UUID]*domain{}, volumes: map[string]*volume{}, freeKiB: 16 << 20, room: 1 << 40,
		state: libvirt.StoragePoolRunning,
	}
}

// Speak is a session.Options.Speak that leads to the daemon.
func (d *Daemon) Speak(net.Conn) (session.API, error) { return &calls{d}, nil }

// Dial is a session.Options.Dial for it: the connection carries nothing.
func (d *Daemon) Dial() (net.Conn, error) {
	here, _ := net.Pipe()
	return here, nil
}

// Boot gives an address to every guest that runs and has none.
func (d *Daemon) Boot() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dom := range d.sorted() {
		has := slices.ContainsFunc(d.leases, func(l libvirt.NetworkDhcpLease) bool { return l.Mac[0] == dom.mac })
		if dom.state != libvirt.DomainRunning || has {
			continue
		}
		d.next++
		d.leases = append(d.leases, libvirt.NetworkDhcpLease{
			Iface: "virbr0", Expirytime: int64(d.next), Mac: libvirt.OptString{dom.mac}, Ipaddr: address(d.next), Prefix: 16,
		})
	}
}

// Lease adds a lease of one's own making.
func (d *Daemon) Lease(l libvirt.NetworkDhcpLease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leases = append(d.leases, l)
}

// Set brings the domain of that name into a state.
func (d *Daemon) Set(name string, state libvirt.DomainState, reason int32) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	dom := d.byName(name)
	if dom == nil {
		return false
	}
	dom.state, dom.reason = state, reason
	return true
}

// Undefine takes a domain away as a hand would; its volumes stay.
func (d *Daemon) Undefine(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	dom := d.byName(name)
	if dom == nil {
		return false
	}
	delete(d.domains, dom.UUID)
	return true
}

// Rename gives a domain another name.
func (d *Daemon) Rename(name, to string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	dom := d.byName(name)
	if dom == nil {
		return false
	}
	dom.Name = to
	return true
}

// Place adds a domain that is nobody's of ours, or, with metadata, a copy.
func (d *Daemon) Place(name, metadata string) libvirt.UUID {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := libvirt.UUID(uuid.New())
	d.domains[id] = &domain{Domain: libvirt.Domain{Name: name, UUID: id, ID: -1}, metadata: metadata, state: libvirt.DomainRunning, reason: 1}
	return id
}

// UUID returns the host's.
func (d *Daemon) UUID() string { return d.uuid }

// SetMetadata replaces what a domain has in our element; "" is none.
func (d *Daemon) SetMetadata(name, text string) bool {
	return d.change(name, func(dom *domain) { dom.metadata = text })
}

// Keep lets a domain have what takes these flags to be removed with it: a managed save image, snapshots, NVRAM.
func (d *Daemon) Keep(name string, what libvirt.DomainUndefineFlagsValues) bool {
	return d.change(name, func(dom *domain) { dom.keeps = what })
}

// Answer is what the guest's agent, or the host's neighbour table, says of a domain's interfaces.
func (d *Daemon) Answer(name string, source libvirt.DomainInterfaceAddressesSource, all ...libvirt.DomainInterface) bool {
	return d.change(name, func(dom *domain) {
		if dom.answers == nil {
			dom.answers = map[libvirt.DomainInterfaceAddressesSource][]libvirt.DomainInterface{}
		}
		dom.answers[source] = all
	})
}

func (d *Daemon) change(name string, f func(*domain)) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	dom := d.byName(name)
	if dom != nil {
		f(dom)
	}
	return dom != nil
}

// SetPool replaces the pool's description, unless it is empty, and state.
func (d *Daemon) SetPool(text string, state libvirt.StoragePoolState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool, d.state = text, state
}

// SetStats replaces the statistics of the host's memory.
func (d *Daemon) SetStats(all ...libvirt.NodeGetMemoryStats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats, d.noStats = all, len(all) == 0
}

// Shape is what a volume is. Backing is a path and a format with a bar between them.
type Shape struct {
	Capacity        uint64
	Backing, Format string
}

// Shape describes a volume.
func (d *Daemon) Shape(name string) (s Shape, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[name]
	if v == nil {
		return s, false
	}
	return Shape{v.capacity, v.backing, v.format}, true
}

// AddVolume adds one.
func (d *Daemon) AddVolume(name string, capacity uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[name] = &volume{name: name, capacity: capacity, format: "raw"}
}

// RemoveVolume removes one.
func (d *Daemon) RemoveVolume(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.volumes, name)
}

// Volume returns what is in a volume; ok is false if there is none.
func (d *Daemon) Volume(name string) (content []byte, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.volumes[name]
	if v == nil {
		return nil, false
	}
	return slices.Clone(v.content), true
}

// Volumes returns the names of all.
func (d *Daemon) Volumes() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.volumes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Entry is a domain as the daemon has it.
type Entry struct {
	Name, UUID, XML, Metadata, MAC string
	State                          libvirt.DomainState
	Reason                         int32
}

// Domains returns all, by name.
func (d *Daemon) Domains() (out []Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dom := range d.sorted() {
		out = append(out, Entry{dom.Name, uuid.UUID(dom.UUID).String(), dom.xml, dom.metadata, dom.mac, dom.state, dom.reason})
	}
	return out
}

// SetRoom says how much memory (KiB) and room in the pool (bytes) is free.
func (d *Daemon) SetRoom(memoryKiB, pool uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.freeKiB, d.room = memoryKiB, pool
}

// Restart forgets what a daemon that restarts on a host that has rebooted forgets: every domain is off, for no known reason.
func (d *Daemon) Restart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dom := range d.domains {
		dom.state, dom.reason = libvirt.DomainShutoff, int32(libvirt.DomainShutoffUnknown)
	}
}

func (d *Daemon) byName(name string) *domain {
	for _, dom := range d.domains {
		if dom.Name == name {
			return dom
		}
	}
	return nil
}

func (d *Daemon) sorted() (out []*domain) {
	for _, dom := range d.domains {
		out = append(out, dom)
	}
	slices.SortFunc(out, func(a, b *domain) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Fill lets a volume take that much of its pool.
func (d *Daemon) Fill(name string, allocation uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.volumes[name]; v != nil {
		v.filled = allocation
	}
}

// Forget takes all leases away.
func (d *Daemon) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leases = nil
}

// Reshape makes a volume another one, or adds it.
func (d *Daemon) Reshape(name string, s Shape) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.volumes[name] = &volume{name: name, capacity: s.Capacity, backing: s.Backing, format: s.Format}
}

// Destroyed returns the flags with which domains were ended, in order.
func (d *Daemon) Destroyed() []libvirt.DomainDestroyFlagsValues {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.destroyed)
}

// Cut takes away what is in a volume after n bytes.
func (d *Daemon) Cut(name string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.volumes[name]; v != nil && len(v.content) > n {
		v.content = v.content[:n]
	}
}
