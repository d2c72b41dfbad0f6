package kvm

import (
	"encoding/xml"
	"fmt"

	"libvirt.org/go/libvirtxml"
)

// Buses of the seed.
const (
	busVirtio = "virtio"
	busSCSI   = "scsi"
	busSATA   = "sata"
	busIDE    = "ide"
)

// guest is what a domain is defined from.
type guest struct {
	record  record
	name    string
	uuid    string
	machine MachineType
	network string
	bridge  string
	// disk and seed are paths on the host.
	disk, seed string
}

// domainXML describes the domain. The machine is as small as a server's can be: no graphics, no USB, no sound.
func domainXML(g guest) (string, error) {
	meta, err := xml.Marshal(g.record)
	if err != nil {
		return "", fmt.Errorf("marks: %w", err)
	}
	m := g.machine
	d := libvirtxml.Domain{
		Type: m.DomainType, Name: g.name, UUID: g.uuid,
		Title:    "egress proxy",
		Metadata: &libvirtxml.DomainMetadata{XML: string(meta)},
		Memory:   &libvirtxml.DomainMemory{Value: uint(m.MemoryMiB), Unit: "MiB"}, //nolint:gosec // bounded by the configuration
		VCPU:     &libvirtxml.DomainVCPU{Value: uint(m.VCPUs)},                    //nolint:gosec // bounded by the configuration
		OS: &libvirtxml.DomainOS{
			Type:        &libvirtxml.DomainOSType{Machine: m.Machine, Type: "hvm"},
			BootDevices: []libvirtxml.DomainBootDevice{{Dev: "hd"}},
		},
		Features: &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		Clock:    &libvirtxml.DomainClock{Offset: "utc"},
		// A guest that ends stays ended, so that it is seen to; one that reboots goes on.
		OnPoweroff: "destroy", OnReboot: "restart", OnCrash: "destroy",
		Devices: &libvirtxml.DomainDeviceList{
			Disks:       []libvirtxml.DomainDisk{disk(g.disk), seedDisk(g.seed, m.SeedBus)},
			Interfaces:  []libvirtxml.DomainInterface{nic(g)},
			Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
			Channels: []libvirtxml.DomainChannel{{
				Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{}},
				Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: "org.qemu.guest_agent.0"}},
			}},
			Serials: []libvirtxml.DomainSerial{{
				Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
			}},
			RNGs: []libvirtxml.DomainRNG{{
				Model:   "virtio",
				Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
			}},
			MemBalloon: &libvirtxml.DomainMemBalloon{Model: "none"},
		},
	}
	if m.CPUMode != "" {
		d.CPU = &libvirtxml.DomainCPU{Mode: m.CPUMode}
	}
	if m.SeedBus == busSCSI {
		d.Devices.Controllers = append(d.Devices.Controllers, libvirtxml.DomainController{Type: "scsi", Model: "virtio-scsi"})
	}
	return d.Marshal()
}

func file(path string) *libvirtxml.DomainDiskSource {
	return &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: path}}
}

func disk(path string) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "qcow2", Discard: "unmap"},
		Source: file(path),
		Target: &libvirtxml.DomainDiskTarget{Dev: "vda", Bus: "virtio"},
	}
}

func seedDisk(path, bus string) libvirtxml.DomainDisk {
	d := libvirtxml.DomainDisk{
		Device:   "cdrom",
		Driver:   &libvirtxml.DomainDiskDriver{Name: "qemu", Type: "raw"},
		Source:   file(path),
		Target:   &libvirtxml.DomainDiskTarget{Bus: bus},
		ReadOnly: &libvirtxml.DomainDiskReadOnly{},
	}
	switch bus {
	case busVirtio: // virtio knows no CD-ROM
		d.Device, d.Target.Dev = "disk", "vdb"
	case busIDE:
		d.Target.Dev = "hda"
	default:
		d.Target.Dev = "sda"
	}
	return d
}

func nic(g guest) libvirtxml.DomainInterface {
	i := libvirtxml.DomainInterface{
		MAC:    &libvirtxml.DomainInterfaceMAC{Address: g.record.MAC},
		Model:  &libvirtxml.DomainInterfaceModel{Type: "virtio"},
		Source: &libvirtxml.DomainInterfaceSource{},
	}
	if g.bridge != "" {
		i.Source.Bridge = &libvirtxml.DomainInterfaceSourceBridge{Bridge: g.bridge}
	} else {
		i.Source.Network = &libvirtxml.DomainInterfaceSourceNetwork{Network: g.network}
	}
	return i
}

// Volumes.

// overlayXML is a disk on top of a base image. The base's format is stated: were it left to be found out, a guest could
// write a header into its raw disk that names a file of the host's.
func overlayXML(name string, capacity int64, basePath, baseFormat string) (string, error) {
	v := libvirtxml.StorageVolume{
		Name:     name,
		Capacity: &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(capacity)}, //nolint:gosec // never negative
		Target:   &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: "qcow2"}},
		BackingStore: &libvirtxml.StorageVolumeBackingStore{
			Path: basePath, Format: &libvirtxml.StorageVolumeTargetFormat{Type: baseFormat},
		},
	}
	return v.Marshal()
}

func rawXML(name string, capacity, allocation int64) (string, error) {
	v := libvirtxml.StorageVolume{
		Name:       name,
		Capacity:   &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(capacity)},   //nolint:gosec // never negative
		Allocation: &libvirtxml.StorageVolumeSize{Unit: "bytes", Value: uint64(allocation)}, //nolint:gosec // never negative
		Target:     &libvirtxml.StorageVolumeTarget{Format: &libvirtxml.StorageVolumeTargetFormat{Type: "raw"}},
	}
	return v.Marshal()
}
