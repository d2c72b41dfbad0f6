package libvirttest

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"
)

// calls are one connection's.
type calls struct{ d *Daemon }

func refuse(code libvirt.ErrorNumber, format string, args ...any) error {
	return libvirt.Error{Code: uint32(code), Message: fmt.Sprintf(format, args...)} //nolint:gosec // an enumeration
}

func address(n int) string { return fmt.Sprintf("192.168.%d.%d", 122+n/250, 2+n%250) }

func (c *calls) ConnectGetLibVersion() (uint64, error) { return 9000000, nil }
func (c *calls) ConnectGetVersion() (uint64, error)    { return 7002000, nil }

func (c *calls) ConnectGetCapabilities() (string, error) {
	return "<capabilities><host><uuid>" + c.d.uuid + "</uuid></host></capabilities>", nil
}

func (c *calls) NodeGetMemoryStats(nparams, _ int32, _ uint32) ([]libvirt.NodeGetMemoryStats, int32, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	switch n := int32(len(c.d.stats)); { //nolint:gosec // a few
	case c.d.noStats:
		return nil, 0, nil
	case nparams == 0 && n > 0:
		return nil, n, nil
	case nparams == 0:
		return nil, 4, nil
	case n > 0:
		return slices.Clone(c.d.stats), n, nil
	}
	return []libvirt.NodeGetMemoryStats{{Field: "total", Value: 32 << 20}, {Field: "free", Value: c.d.freeKiB}, {Field: "buffers"}, {Field: "cached"}}, 4, nil
}

func (c *calls) ConnectListAllDomains(int32, libvirt.ConnectListAllDomainsFlags) (out []libvirt.Domain, _ uint32, _ error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	for _, dom := range c.d.sorted() {
		out = append(out, dom.Domain)
	}
	return out, uint32(len(out)), nil //nolint:gosec // a few
}

func (c *calls) DomainLookupByName(name string) (libvirt.Domain, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if dom := c.d.byName(name); dom != nil {
		return dom.Domain, nil
	}
	return libvirt.Domain{}, refuse(libvirt.ErrNoDomain, "Domain not found: no domain with matching name '%s'", name)
}

func (c *calls) DomainLookupByUUID(id libvirt.UUID) (libvirt.Domain, error) {
	var found libvirt.Domain
	err := c.domain(libvirt.Domain{UUID: id}, func(dom *domain) error { found = dom.Domain; return nil })
	return found, err
}

// domain runs f on the domain of that UUID, as the daemon does: names in handles are not looked at.
func (c *calls) domain(h libvirt.Domain, f func(*domain) error) error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	dom := c.d.domains[h.UUID]
	if dom == nil {
		return refuse(libvirt.ErrNoDomain, "Domain not found: no domain with matching uuid '%s' (%s)", uuid.UUID(h.UUID), h.Name)
	}
	return f(dom)
}

func (c *calls) DomainGetMetadata(h libvirt.Domain, _ int32, _ libvirt.OptString, _ libvirt.DomainModificationImpact) (text string, err error) {
	err = c.domain(h, func(dom *domain) error {
		if dom.metadata == "" {
			return refuse(libvirt.ErrNoDomainMetadata, "metadata not found: Requested metadata element is not present")
		}
		text = dom.metadata
		return nil
	})
	return text, err
}

func (c *calls) DomainGetState(h libvirt.Domain, _ uint32) (state, reason int32, err error) {
	err = c.domain(h, func(dom *domain) error { state, reason = int32(dom.state), dom.reason; return nil })
	return state, reason, err
}

func (c *calls) DomainGetInfo(h libvirt.Domain) (state uint8, maxKiB, kib uint64, cpus uint16, cpuTime uint64, err error) {
	err = c.domain(h, func(dom *domain) error { state, maxKiB, kib, cpus = uint8(dom.state), 512<<10, 512<<10, 1; return nil }) //nolint:gosec // small
	return state, maxKiB, kib, cpus, cpuTime, err
}

func (c *calls) DomainDefineXMLFlags(text string, _ libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	var desc libvirtxml.Domain
	if err := desc.Unmarshal(text); err != nil {
		return libvirt.Domain{}, refuse(libvirt.ErrXMLError, "XML error: %v", err)
	}
	id := uuid.New()
	if desc.UUID != "" {
		var err error
		if id, err = uuid.Parse(desc.UUID); err != nil {
			return libvirt.Domain{}, refuse(libvirt.ErrXMLError, "malformed uuid element")
		}
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	key := libvirt.UUID(id)
	same, namesake := c.d.domains[key], c.d.byName(desc.Name)
	switch {
	case same != nil && same.Name != desc.Name:
		return libvirt.Domain{}, refuse(libvirt.ErrOperationFailed, "operation failed: domain '%s' is already defined with uuid %s", same.Name, id)
	case same == nil && namesake != nil:
		return libvirt.Domain{}, refuse(libvirt.ErrOperationFailed, "operation failed: domain '%s' already exists with uuid %s", desc.Name, uuid.UUID(namesake.UUID))
	case same != nil:
		same.take(text, &desc)
		return same.Domain, nil
	}
	dom := &domain{Domain: libvirt.Domain{Name: desc.Name, UUID: key, ID: -1}, state: libvirt.DomainShutoff}
	dom.take(text, &desc)
	c.d.domains[key] = dom
	return dom.Domain, nil
}

func (dom *domain) take(text string, desc *libvirtxml.Domain) {
	dom.xml, dom.metadata, dom.mac, dom.disks = text, "", "", nil
	if desc.Metadata != nil {
		// What it gives back of an element of ours it has parsed and written anew, less the namespace it goes by.
		var element struct {
			XMLName xml.Name
			Attrs   []xml.Attr `xml:",any,attr"`
		}
		if xml.Unmarshal([]byte(desc.Metadata.XML), &element) == nil {
			again, _ := xml.Marshal(element)
			dom.metadata = string(again)
		}
	}
	for _, i := range desc.Devices.Interfaces {
		dom.mac = strings.ToLower(i.MAC.Address)
	}
	for _, d := range desc.Devices.Disks {
		dom.disks = append(dom.disks, d.Source.File.File)
	}
}

func (c *calls) DomainCreateWithFlags(h libvirt.Domain, _ uint32) (libvirt.Domain, error) {
	return h, c.domain(h, func(dom *domain) error {
		if dom.state != libvirt.DomainShutoff && dom.state != libvirt.DomainCrashed {
			return refuse(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is already running")
		}
		for _, path := range dom.disks {
			if c.d.volumes[strings.TrimPrefix(path, PoolFolder+"/")] == nil {
				dom.state, dom.reason = libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed)
				return refuse(libvirt.ErrSystemError, "Cannot access storage file '%s': No such file or directory", path)
			}
		}
		dom.state, dom.reason = libvirt.DomainRunning, int32(libvirt.DomainRunningBooted)
		return nil
	})
}

func (c *calls) DomainDestroyFlags(h libvirt.Domain, flags libvirt.DomainDestroyFlagsValues) error {
	return c.domain(h, func(dom *domain) error {
		if dom.state == libvirt.DomainShutoff {
			return refuse(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running")
		}
		c.d.destroyed = append(c.d.destroyed, flags)
		dom.state, dom.reason = libvirt.DomainShutoff, int32(libvirt.DomainShutoffDestroyed)
		if dom.transient {
			delete(c.d.domains, dom.UUID)
		}
		return nil
	})
}

func (c *calls) DomainUndefineFlags(h libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error {
	return c.domain(h, func(dom *domain) error {
		switch off := dom.state == libvirt.DomainShutoff || dom.state == libvirt.DomainCrashed; {
		case dom.transient:
			return refuse(libvirt.ErrOperationInvalid, "Requested operation is not valid: cannot undefine transient domain")
		case dom.keeps&^flags != 0:
			return refuse(libvirt.ErrOperationInvalid, "Requested operation is not valid: Refusing to undefine while domain managed save image exists")
		case !off:
			dom.transient = true
			return nil
		}
		delete(c.d.domains, dom.UUID)
		return nil
	})
}

func (c *calls) DomainAgentSetResponseTimeout(h libvirt.Domain, _ int32, _ uint32) (int32, error) {
	return 0, c.domain(h, func(*domain) error { return nil })
}

func (c *calls) DomainInterfaceAddresses(h libvirt.Domain, source, _ uint32) (all []libvirt.DomainInterface, err error) {
	err = c.domain(h, func(dom *domain) error {
		answer, ok := dom.answers[libvirt.DomainInterfaceAddressesSource(source)] //nolint:gosec // an enumeration
		if all = slices.Clone(answer); ok {
			return nil
		}
		if dom.state != libvirt.DomainRunning {
			return refuse(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running")
		}
		return refuse(libvirt.ErrAgentUnresponsive, "Guest agent is not responding: QEMU guest agent is not connected")
	})
	return all, err
}

func (c *calls) NetworkLookupByName(name string) (libvirt.Network, error) {
	if name != Network {
		return libvirt.Network{}, refuse(libvirt.ErrNoNetwork, "Network not found: no network with matching name '%s'", name)
	}
	return libvirt.Network{Name: name}, nil
}

func (c *calls) NetworkGetDhcpLeases(libvirt.Network, libvirt.OptString, int32, uint32) ([]libvirt.NetworkDhcpLease, uint32, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return slices.Clone(c.d.leases), uint32(len(c.d.leases)), nil //nolint:gosec // a few
}

func (c *calls) StoragePoolLookupByName(name string) (libvirt.StoragePool, error) {
	if name != Pool {
		return libvirt.StoragePool{}, refuse(libvirt.ErrNoStoragePool, "Storage pool not found: no storage pool with matching name '%s'", name)
	}
	return libvirt.StoragePool{Name: name}, nil
}

func (c *calls) StoragePoolGetInfo(libvirt.StoragePool) (state uint8, capacity, allocation, available uint64, err error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return uint8(c.d.state), 2 << 40, 2<<40 - c.d.room, c.d.room, nil //nolint:gosec // an enumeration
}

func (c *calls) StoragePoolGetXMLDesc(p libvirt.StoragePool, _ libvirt.StorageXMLFlags) (string, error) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.pool != "" {
		return c.d.pool, nil
	}
	return "<pool type='dir'><name>" + p.Name + "</name><target><path>" + PoolFolder + "</path></target></pool>", nil
}

func (c *calls) StoragePoolListAllVolumes(p libvirt.StoragePool, _ int32, _ uint32) (out []libvirt.StorageVol, _ uint32, _ error) {
	for _, name := range c.d.Volumes() {
		out = append(out, libvirt.StorageVol{Pool: p.Name, Name: name, Key: PoolFolder + "/" + name})
	}
	return out, uint32(len(out)), nil //nolint:gosec // a few
}

func (c *calls) volume(name string, f func(*volume) error) error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	v := c.d.volumes[name]
	if v == nil {
		return refuse(libvirt.ErrNoStorageVol, "Storage volume not found: no storage vol with matching name '%s'", name)
	}
	return f(v)
}

func (c *calls) StorageVolLookupByName(p libvirt.StoragePool, name string) (libvirt.StorageVol, error) {
	return libvirt.StorageVol{Pool: p.Name, Name: name, Key: PoolFolder + "/" + name}, c.volume(name, func(*volume) error { return nil })
}

func (c *calls) StorageVolGetInfo(h libvirt.StorageVol) (kind int8, capacity, allocation uint64, err error) {
	err = c.volume(h.Name, func(v *volume) error { capacity, allocation = v.capacity, v.filled+uint64(len(v.content)); return nil })
	return kind, capacity, allocation, err
}

func (c *calls) StorageVolGetXMLDesc(h libvirt.StorageVol, _ uint32) (text string, err error) {
	err = c.volume(h.Name, func(v *volume) error {
		desc := libvirtxml.StorageVolume{Name: v.name, Target: &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: v.format}}}
		if path, format, ok := strings.Cut(v.backing, "|"); ok {
			desc.BackingStore = &libvirtxml.StorageVolumeBackingStore{Path: path, Format: &libvirtxml.StorageVolumeTargetFormat{Type: format}}
		}
		text, _ = desc.Marshal()
		return nil
	})
	return text, err
}

func (c *calls) StorageVolCreateXML(p libvirt.StoragePool, text string, _ libvirt.StorageVolCreateFlags) (libvirt.StorageVol, error) {
	var desc libvirtxml.StorageVolume
	if err := desc.Unmarshal(text); err != nil {
		return libvirt.StorageVol{}, refuse(libvirt.ErrXMLError, "XML error: %v", err)
	}
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.d.volumes[desc.Name] != nil {
		return libvirt.StorageVol{}, refuse(libvirt.ErrStorageVolExist, "storage volume '%s' exists already", desc.Name)
	}
	// libvirt asks qemu-img for whole KiB.
	v := &volume{name: desc.Name, capacity: (desc.Capacity.Value + 1023) &^ 1023, format: desc.Target.Format.Type}
	if b := desc.BackingStore; b != nil {
		if c.d.volumes[strings.TrimPrefix(b.Path, PoolFolder+"/")] == nil {
			return libvirt.StorageVol{}, refuse(libvirt.ErrSystemError, "inaccessible backing store volume %s: No such file or directory", b.Path)
		}
		v.backing = b.Path + "|" + b.Format.Type
	}
	if c.d.room == 0 {
		return libvirt.StorageVol{}, refuse(libvirt.ErrSystemError, "cannot allocate: No space left on device")
	}
	c.d.volumes[desc.Name] = v
	return libvirt.StorageVol{Pool: p.Name, Name: desc.Name, Key: PoolFolder + "/" + desc.Name}, nil
}

func (c *calls) StorageVolUpload(h libvirt.StorageVol, from io.Reader, _, length uint64, _ libvirt.StorageVolUploadFlags) error {
	if err := c.volume(h.Name, func(*volume) error { return nil }); err != nil {
		return err
	}
	content, err := io.ReadAll(io.LimitReader(from, int64(length)+1)) //nolint:gosec // from a test
	if err != nil {
		return err
	}
	return c.volume(h.Name, func(v *volume) error {
		if uint64(len(content)) > length {
			return refuse(libvirt.ErrInvalidArg, "more than announced")
		}
		v.content = content
		return nil
	})
}

func (c *calls) StorageVolDelete(h libvirt.StorageVol, _ libvirt.StorageVolDeleteFlags) error {
	return c.volume(h.Name, func(v *volume) error {
		delete(c.d.volumes, v.name)
		return nil
	})
}
