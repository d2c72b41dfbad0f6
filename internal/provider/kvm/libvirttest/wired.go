package libvirttest

import (
	"io"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// wired is an API whose calls go over a wire.
type wired struct {
	next session.API
	wire *Wire
}

func (w *wired) ConnectGetLibVersion() (r0 uint64, err error) {
	err = w.wire.pass("ConnectGetLibVersion", func() (e error) {
		r0, e = w.next.ConnectGetLibVersion()
		return e
	})
	return r0, err
}

func (w *wired) ConnectGetVersion() (r0 uint64, err error) {
	err = w.wire.pass("ConnectGetVersion", func() (e error) {
		r0, e = w.next.ConnectGetVersion()
		return e
	})
	return r0, err
}

func (w *wired) ConnectGetCapabilities() (r0 string, err error) {
	err = w.wire.pass("ConnectGetCapabilities", func() (e error) {
		r0, e = w.next.ConnectGetCapabilities()
		return e
	})
	return r0, err
}

func (w *wired) NodeGetMemoryStats(nparams, cell int32, flags uint32) (r0 []libvirt.NodeGetMemoryStats, r1 int32, err error) {
	err = w.wire.pass("NodeGetMemoryStats", func() (e error) {
		r0, r1, e = w.next.NodeGetMemoryStats(nparams, cell, flags)
		return e
	})
	return r0, r1, err
}

func (w *wired) ConnectListAllDomains(needResults int32, flags libvirt.ConnectListAllDomainsFlags) (r0 []libvirt.Domain, r1 uint32, err error) {
	err = w.wire.pass("ConnectListAllDomains", func() (e error) {
		r0, r1, e = w.next.ConnectListAllDomains(needResults, flags)
		return e
	})
	return r0, r1, err
}

func (w *wired) DomainLookupByName(name string) (r0 libvirt.Domain, err error) {
	err = w.wire.pass("DomainLookupByName", func() (e error) {
		r0, e = w.next.DomainLookupByName(name)
		return e
	})
	return r0, err
}

func (w *wired) DomainLookupByUUID(uuid libvirt.UUID) (r0 libvirt.Domain, err error) {
	err = w.wire.pass("DomainLookupByUUID", func() (e error) {
		r0, e = w.next.DomainLookupByUUID(uuid)
		return e
	})
	return r0, err
}

func (w *wired) DomainGetMetadata(d libvirt.Domain, kind int32, uri libvirt.OptString, impact libvirt.DomainModificationImpact) (r0 string, err error) {
	err = w.wire.pass("DomainGetMetadata", func() (e error) {
		r0, e = w.next.DomainGetMetadata(d, kind, uri, impact)
		return e
	})
	return r0, err
}

func (w *wired) DomainGetState(d libvirt.Domain, flags uint32) (r0 int32, r1 int32, err error) {
	err = w.wire.pass("DomainGetState", func() (e error) {
		r0, r1, e = w.next.DomainGetState(d, flags)
		return e
	})
	return r0, r1, err
}

func (w *wired) DomainDefineXMLFlags(xml string, flags libvirt.DomainDefineFlags) (r0 libvirt.Domain, err error) {
	err = w.wire.pass("DomainDefineXMLFlags", func() (e error) {
		r0, e = w.next.DomainDefineXMLFlags(xml, flags)
		return e
	})
	return r0, err
}

func (w *wired) DomainCreateWithFlags(d libvirt.Domain, flags uint32) (r0 libvirt.Domain, err error) {
	err = w.wire.pass("DomainCreateWithFlags", func() (e error) {
		r0, e = w.next.DomainCreateWithFlags(d, flags)
		return e
	})
	return r0, err
}

func (w *wired) DomainDestroyFlags(d libvirt.Domain, flags libvirt.DomainDestroyFlagsValues) (err error) {
	return w.wire.pass("DomainDestroyFlags", func() error { return w.next.DomainDestroyFlags(d, flags) })
}

func (w *wired) DomainUndefineFlags(d libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) (err error) {
	return w.wire.pass("DomainUndefineFlags", func() error { return w.next.DomainUndefineFlags(d, flags) })
}

func (w *wired) DomainGetInfo(d libvirt.Domain) (r0 uint8, r1 uint64, r2 uint64, r3 uint16, r4 uint64, err error) {
	err = w.wire.pass("DomainGetInfo", func() (e error) {
		r0, r1, r2, r3, r4, e = w.next.DomainGetInfo(d)
		return e
	})
	return r0, r1, r2, r3, r4, err
}

func (w *wired) DomainAgentSetResponseTimeout(d libvirt.Domain, seconds int32, flags uint32) (r0 int32, err error) {
	err = w.wire.pass("DomainAgentSetResponseTimeout", func() (e error) {
		r0, e = w.next.DomainAgentSetResponseTimeout(d, seconds, flags)
		return e
	})
	return r0, err
}

func (w *wired) DomainInterfaceAddresses(d libvirt.Domain, source, flags uint32) (r0 []libvirt.DomainInterface, err error) {
	err = w.wire.pass("DomainInterfaceAddresses", func() (e error) {
		r0, e = w.next.DomainInterfaceAddresses(d, source, flags)
		return e
	})
	return r0, err
}

func (w *wired) NetworkLookupByName(name string) (r0 libvirt.Network, err error) {
	err = w.wire.pass("NetworkLookupByName", func() (e error) {
		r0, e = w.next.NetworkLookupByName(name)
		return e
	})
	return r0, err
}

func (w *wired) NetworkGetDhcpLeases(n libvirt.Network, mac libvirt.OptString, needResults int32, flags uint32) (r0 []libvirt.NetworkDhcpLease, r1 uint32, err error) {
	err = w.wire.pass("NetworkGetDhcpLeases", func() (e error) {
		r0, r1, e = w.next.NetworkGetDhcpLeases(n, mac, needResults, flags)
		return e
	})
	return r0, r1, err
}

func (w *wired) StoragePoolLookupByName(name string) (r0 libvirt.StoragePool, err error) {
	err = w.wire.pass("StoragePoolLookupByName", func() (e error) {
		r0, e = w.next.StoragePoolLookupByName(name)
		return e
	})
	return r0, err
}

func (w *wired) StoragePoolGetInfo(p libvirt.StoragePool) (r0 uint8, r1 uint64, r2 uint64, r3 uint64, err error) {
	err = w.wire.pass("StoragePoolGetInfo", func() (e error) {
		r0, r1, r2, r3, e = w.next.StoragePoolGetInfo(p)
		return e
	})
	return r0, r1, r2, r3, err
}

func (w *wired) StoragePoolGetXMLDesc(p libvirt.StoragePool, flags libvirt.StorageXMLFlags) (r0 string, err error) {
	err = w.wire.pass("StoragePoolGetXMLDesc", func() (e error) {
		r0, e = w.next.StoragePoolGetXMLDesc(p, flags)
		return e
	})
	return r0, err
}

func (w *wired) StoragePoolListAllVolumes(p libvirt.StoragePool, needResults int32, flags uint32) (r0 []libvirt.StorageVol, r1 uint32, err error) {
	err = w.wire.pass("StoragePoolListAllVolumes", func() (e error) {
		r0, r1, e = w.next.StoragePoolListAllVolumes(p, needResults, flags)
		return e
	})
	return r0, r1, err
}

func (w *wired) StorageVolLookupByName(p libvirt.StoragePool, name string) (r0 libvirt.StorageVol, err error) {
	err = w.wire.pass("StorageVolLookupByName", func() (e error) {
		r0, e = w.next.StorageVolLookupByName(p, name)
		return e
	})
	return r0, err
}

func (w *wired) StorageVolGetInfo(v libvirt.StorageVol) (r0 int8, r1 uint64, r2 uint64, err error) {
	err = w.wire.pass("StorageVolGetInfo", func() (e error) {
		r0, r1, r2, e = w.next.StorageVolGetInfo(v)
		return e
	})
	return r0, r1, r2, err
}

func (w *wired) StorageVolGetXMLDesc(v libvirt.StorageVol, flags uint32) (r0 string, err error) {
	err = w.wire.pass("StorageVolGetXMLDesc", func() (e error) {
		r0, e = w.next.StorageVolGetXMLDesc(v, flags)
		return e
	})
	return r0, err
}

func (w *wired) StorageVolCreateXML(p libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags) (r0 libvirt.StorageVol, err error) {
	err = w.wire.pass("StorageVolCreateXML", func() (e error) {
		r0, e = w.next.StorageVolCreateXML(p, xml, flags)
		return e
	})
	return r0, err
}

func (w *wired) StorageVolUpload(v libvirt.StorageVol, from io.Reader, offset, length uint64, flags libvirt.StorageVolUploadFlags) (err error) {
	return w.wire.pass("StorageVolUpload", func() error { return w.next.StorageVolUpload(v, from, offset, length, flags) })
}

func (w *wired) StorageVolDelete(v libvirt.StorageVol, flags libvirt.StorageVolDeleteFlags) (err error) {
	return w.wire.pass("StorageVolDelete", func() error { return w.next.StorageVolDelete(v, flags) })
}
