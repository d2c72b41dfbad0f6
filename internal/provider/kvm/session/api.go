package session

import (
	"io"

	"github.com/digitalocean/go-libvirt"
)

// API is what is used of libvirt's remote protocol, as *libvirt.Libvirt has it. Its calls block until the daemon answers or
// the connection ends.
type API interface {
	ConnectGetLibVersion() (uint64, error)
	ConnectGetVersion() (uint64, error)
	ConnectGetCapabilities() (string, error)
	NodeGetMemoryStats(nparams, cell int32, flags uint32) ([]libvirt.NodeGetMemoryStats, int32, error)

	ConnectListAllDomains(needResults int32, flags libvirt.ConnectListAllDomainsFlags) ([]libvirt.Domain, uint32, error)
	DomainLookupByName(name string) (libvirt.Domain, error)
	DomainLookupByUUID(uuid libvirt.UUID) (libvirt.Domain, error)
	DomainGetMetadata(d libvirt.Domain, kind int32, uri libvirt.OptString, impact libvirt.DomainModificationImpact) (string, error)
	DomainGetState(d libvirt.Domain, flags uint32) (state, reason int32, err error)
	DomainDefineXMLFlags(xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error)
	DomainCreateWithFlags(d libvirt.Domain, flags uint32) (libvirt.Domain, error)
	DomainDestroyFlags(d libvirt.Domain, flags libvirt.DomainDestroyFlagsValues) error
	DomainUndefineFlags(d libvirt.Domain, flags libvirt.DomainUndefineFlagsValues) error
	DomainGetInfo(d libvirt.Domain) (state uint8, maxMemKiB, memKiB uint64, vcpus uint16, cpuTime uint64, err error)
	DomainAgentSetResponseTimeout(d libvirt.Domain, seconds int32, flags uint32) (int32, error)
	DomainInterfaceAddresses(d libvirt.Domain, source, flags uint32) ([]libvirt.DomainInterface, error)

	NetworkLookupByName(name string) (libvirt.Network, error)
	NetworkGetDhcpLeases(n libvirt.Network, mac libvirt.OptString, needResults int32, flags uint32) ([]libvirt.NetworkDhcpLease, uint32, error)

	StoragePoolLookupByName(name string) (libvirt.StoragePool, error)
	StoragePoolGetInfo(p libvirt.StoragePool) (state uint8, capacity, allocation, available uint64, err error)
	StoragePoolGetXMLDesc(p libvirt.StoragePool, flags libvirt.StorageXMLFlags) (string, error)
	StoragePoolListAllVolumes(p libvirt.StoragePool, needResults int32, flags uint32) ([]libvirt.StorageVol, uint32, error)
	StorageVolLookupByName(p libvirt.StoragePool, name string) (libvirt.StorageVol, error)
	StorageVolGetInfo(v libvirt.StorageVol) (kind int8, capacity, allocation uint64, err error)
	StorageVolGetXMLDesc(v libvirt.StorageVol, flags uint32) (string, error)
	StorageVolCreateXML(p libvirt.StoragePool, xml string, flags libvirt.StorageVolCreateFlags) (libvirt.StorageVol, error)
	StorageVolUpload(v libvirt.StorageVol, from io.Reader, offset, length uint64, flags libvirt.StorageVolUploadFlags) error
	StorageVolDelete(v libvirt.StorageVol, flags libvirt.StorageVolDeleteFlags) error
}

var _ API = (*libvirt.Libvirt)(nil)
