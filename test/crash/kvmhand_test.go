package crash

import (
	"cmp"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

const partDomain = "domain"

// confused is a state that nobody knows.
const confused = libvirt.DomainState(42)

// record is what a domain says of itself.
type record struct {
	Managed      string `xml:"managed,attr"`
	UID          string `xml:"uid,attr"`
	Namespace    string `xml:"namespace,attr"`
	Name         string `xml:"name,attr"`
	Installation string `xml:"installation,attr"`
	Cluster      string `xml:"cluster,attr"`
	Spec         string `xml:"spec,attr"`
	Attempt      string `xml:"attempt,attr"`
	Port         string `xml:"port,attr"`
	MAC          string `xml:"mac,attr"`
}

func recordIn(dom libvirttest.Entry) (r record) {
	_ = xml.Unmarshal([]byte(dom.Metadata), &r)
	return r
}

func (r record) marks() provider.Marks {
	m, _ := provider.MarksFromMap(map[string]string{
		provider.LabelManaged: r.Managed, provider.LabelUID: r.UID, provider.LabelNamespace: r.Namespace, provider.LabelName: r.Name,
		provider.LabelInstallation: r.Installation, provider.LabelCluster: r.Cluster, provider.LabelSpec: r.Spec, provider.LabelAttempt: r.Attempt,
	})
	return m
}

// volumePrefix is what the names of a domain's volumes begin with: name, UID and attempt.
func (r record) volumePrefix(name string) string { return name + "." + r.UID + "." + r.Attempt + "." }

func active(dom libvirttest.Entry) bool { return dom.State == libvirt.DomainRunning }

func leaseOf(mac, ip string, n int) libvirt.NetworkDhcpLease {
	return libvirt.NetworkDhcpLease{Iface: "virbr0", Expirytime: int64(n), Mac: libvirt.OptString{mac}, Ipaddr: ip, Prefix: 16}
}

// whole reports whether a domain has a disk and all of its cloud-init data.
func (d *daemon) whole(dom libvirttest.Entry) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	disk, seed := false, false
	for _, v := range d.Volumes() {
		if !strings.HasPrefix(v, recordIn(dom).volumePrefix(dom.Name)) {
			continue
		}
		content, _ := d.Volume(v)
		disk = disk || strings.HasSuffix(v, ".qcow2")
		seed = seed || strings.HasSuffix(v, ".iso") && len(content) > 0 && uint64(len(content)) == d.sizes[v]
	}
	return disk && seed
}

// Instances puts domains and volumes together, each attempt by itself.
func (c *hypervisors) Instances() []providertest.Leftover {
	c.settle()
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]providertest.Leftover{}
	for _, host := range []string{hostA, hostB} {
		for _, dom := range c.daemons[host].Domains() {
			prefix := recordIn(dom).volumePrefix(dom.Name)
			c.makers[host+" "+prefix] = dom.UUID
			all[host+" "+prefix] = providertest.Leftover{
				ID: "hosts/" + host + "/domains/" + dom.Name, Identity: dom.UUID, Marks: recordIn(dom).marks(), Parts: []string{partDomain},
			}
		}
		for _, v := range c.daemons[host].Volumes() {
			part := strings.SplitN(v, ".", 5)
			if len(part) < 5 || part[0] != provider.NameFromUID(part[1]) {
				continue
			}
			prefix := strings.Join(part[:3], ".") + "."
			in, ok := all[host+" "+prefix]
			if !ok {
				in = providertest.Leftover{ID: "hosts/" + host + "/domains/" + part[0], Identity: cmp.Or(c.makers[host+" "+prefix], prefix)}
				in.Marks.UID = part[1]
				in.Marks.Attempt, _ = strconv.ParseInt(part[2], 10, 64)
			}
			in.Parts = append(in.Parts, part[4])
			all[host+" "+prefix] = in
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b providertest.Leftover) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Marks.Attempt, b.Marks.Attempt))
	})
}

// others are volumes that are no instance's and no base image's, and base images that are gone.
func (c *hypervisors) others() (all []string) {
	for _, host := range []string{hostA, hostB} {
		base := map[string]bool{baseVolume: true, baseMarker: true}
		for _, v := range c.daemons[host].Volumes() {
			if name, _, _ := strings.Cut(v, "."); !base[v] && !strings.HasPrefix(name, "proxy-") {
				all = append(all, host+" "+v)
			}
			delete(base, v)
		}
		for _, v := range slices.Sorted(maps.Keys(base)) {
			all = append(all, host+" no "+v)
		}
	}
	return all
}

// at finds the domain of an ID.
func (c *hypervisors) at(id string) (d *daemon, dom libvirttest.Entry, ok bool) {
	c.settle()
	part := strings.Split(id, "/")
	d = c.daemons[part[1]]
	for _, dom := range d.Domains() {
		if dom.Name == part[3] {
			return d, dom, true
		}
	}
	return d, libvirttest.Entry{Name: part[3]}, false
}

// set changes the state of a domain that is on.
func (c *hypervisors) set(id string, state libvirt.DomainState, reason int32) bool {
	d, dom, ok := c.at(id)
	if !ok || !active(dom) && dom.State != confused {
		return false
	}
	d.Set(dom.Name, state, reason)
	d.sweep()
	c.settle()
	return true
}

func (c *hypervisors) Stop(id, _ string) bool {
	return c.set(id, libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown))
}

func (c *hypervisors) Confuse(id string) bool { return c.set(id, confused, 0) }

// Terminate restarts the host: all domains are off, and nobody knows why.
func (c *hypervisors) Terminate(id string) bool {
	d, _, _ := c.at(id)
	d.Restart()
	d.sweep()
	c.settle()
	return true
}

// Start starts the domain anew, as soon as it has all it needs.
func (c *hypervisors) Start(id string) bool {
	d, dom, ok := c.at(id)
	if !ok || !d.whole(dom) {
		return false
	}
	d.Set(dom.Name, libvirt.DomainShutoff, int32(libvirt.DomainShutoffUnknown))
	c.settle()
	d.Set(dom.Name, libvirt.DomainRunning, int32(libvirt.DomainRunningBooted))
	c.settle()
	return true
}

// LoseMain undefines the domain.
func (c *hypervisors) LoseMain(id string) bool {
	d, dom, _ := c.at(id)
	defer c.settle()
	c.rough = true
	return d.Undefine(dom.Name)
}

func (c *hypervisors) Vanish(id string) bool {
	d, dom, ok := c.at(id)
	defer c.settle()
	d.Undefine(dom.Name)
	for _, v := range d.Volumes() {
		if strings.HasPrefix(v, dom.Name+".") {
			d.RemoveVolume(v)
			ok = true
		}
	}
	return ok
}
