package kvm_test

import (
	"fmt"
	"strings"
	"testing"

	"libvirt.org/go/libvirtxml"
	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// domain is that of a new instance of a machine type with these keys.
func (w *world) domain(keys string) (libvirtxml.Domain, provider.Ref) {
	w.t.Helper()
	p, err := w.open(entry, owner, strings.Replace(w.block(), "domainType: qemu", keys, 1))
	must(w.t, err)
	w.t.Cleanup(func() { _ = p.Close() })
	_, ref := w.made(p)
	var d libvirtxml.Domain
	must(w.t, d.Unmarshal(w.only().XML))
	return d, ref
}

func TestADomain(t *testing.T) {
	w := newT(t)
	d, ref := w.domain("domainType: kvm")
	e := w.only()
	if d.Type != "kvm" || d.UUID != e.UUID || d.Name != e.Name || d.CPU == nil || d.CPU.Mode != "host-passthrough" {
		t.Errorf("%+v", d)
	}
	if d.Memory.Value != 512 || d.Memory.Unit != "MiB" || d.VCPU.Value != 1 {
		t.Errorf("memory %+v, CPUs %+v", d.Memory, d.VCPU)
	}
	if d.OS.Type.Machine != "q35" || d.OS.Type.Type != "hvm" || d.OnPoweroff != "destroy" || d.OnReboot != "restart" || d.OnCrash != "destroy" {
		t.Errorf("OS %+v, %s, %s, %s", d.OS.Type, d.OnPoweroff, d.OnReboot, d.OnCrash)
	}
	dev := d.Devices
	if len(dev.Graphics)+len(dev.Videos)+len(dev.Sounds)+len(dev.Inputs)+len(dev.Hostdevs)+len(dev.Filesystems) > 0 || len(dev.Disks) != 2 || len(dev.Interfaces) != 1 {
		t.Errorf("devices %+v", dev)
	}
	disk := dev.Disks[0]
	// A format that is left to be found out is the guest's to choose.
	if disk.Driver.Type != "qcow2" || disk.Target.Bus != "virtio" || disk.Target.Dev != "vda" || disk.Device != "disk" || disk.ReadOnly != nil ||
		disk.Source.File.File != libvirttest.PoolFolder+"/"+w.volume(ref, "disk.qcow2") {
		t.Errorf("disk %+v", disk)
	}
	if len(dev.Channels) != 1 || dev.Channels[0].Target.VirtIO.Name != "org.qemu.guest_agent.0" || dev.Channels[0].Source.UNIX == nil {
		t.Errorf("channels %+v", dev.Channels)
	}
	nic := dev.Interfaces[0]
	if nic.Model.Type != "virtio" || nic.Source.Network == nil || nic.Source.Network.Network != "default" || !strings.Contains(e.Metadata, nic.MAC.Address) {
		t.Errorf("interface %+v", nic)
	}
	if len(dev.RNGs) != 1 || len(dev.Serials) != 1 || dev.MemBalloon.Model != "none" {
		t.Errorf("devices %+v", dev)
	}
	for _, c := range dev.Controllers {
		if c.Type == "usb" && c.Model != "none" {
			t.Errorf("controller %+v", c)
		}
	}
}

// On each bus the seed is found, and cannot be written.
func TestTheSeedsBus(t *testing.T) {
	for bus, want := range map[string]struct{ device, dev, keys string }{
		"virtio": {"disk", "vdb", ""}, "scsi": {"cdrom", "sda", ""}, "sata": {"cdrom", "sda", ""}, "ide": {"cdrom", "hda", ", machine: pc"},
	} {
		w := newT(t)
		d, ref := w.domain("domainType: qemu, seedBus: " + bus + want.keys)
		s := d.Devices.Disks[1]
		if s.Device != want.device || s.Target.Dev != want.dev || s.Target.Bus != bus || s.ReadOnly == nil || s.Driver.Type != "raw" ||
			s.Source.File.File != libvirttest.PoolFolder+"/"+w.volume(ref, "seed.iso") {
			t.Errorf("%s: %+v", bus, s)
		}
		scsi := 0
		for _, c := range d.Devices.Controllers {
			if c.Type == "scsi" && c.Model == "virtio-scsi" {
				scsi++
			}
		}
		if (bus == "scsi") != (scsi == 1) {
			t.Errorf("%s: %d controllers for SCSI", bus, scsi)
		}
		if d.Type != "qemu" || d.CPU != nil {
			t.Errorf("%s: type %s with CPU %+v", bus, d.Type, d.CPU)
		}
	}
}

// Marks come back from the daemon as they were given, whatever is in them, or are refused before anything is made.
func TestHostileMarks(t *testing.T) {
	w := newT(t)
	p := w.provider()
	rapid.Check(t, func(rt *rapid.T) {
		req := w.request()
		text := rapid.OneOf(hostile(), rapid.String())
		req.Namespace, req.ProxyName, req.Spec = text.Draw(rt, "namespace"), text.Draw(rt, "name"), text.Draw(rt, "spec")
		ref := w.ref(req, 1)
		err := p.Create(t.Context(), req, ref)
		defer w.fresh()
		if err != nil {
			if provider.Class(err) != provider.ErrPermanent || len(w.daemons[hostA].Domains()) > 0 {
				rt.Fatalf("%v, domains %v", err, w.daemons[hostA].Domains())
			}
			for _, s := range []string{req.Namespace, req.ProxyName, req.Spec} {
				for _, r := range s {
					if r < 0x20 && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF {
						return
					}
				}
			}
			rt.Fatalf("refused without a reason: %v", err)
		}
		inst, err := p.Get(t.Context(), ref)
		if err != nil || inst.Marks != owner.MarksFor(req, ref) {
			rt.Fatalf("%+v, %v, want %+v", inst, err, owner.MarksFor(req, ref))
		}
	})
}

// Each owner and attempt has a UUID of its own, the same in every process.
func TestUUIDs(t *testing.T) {
	seen := map[string]string{}
	for _, o := range []provider.Owner{owner, {Installation: owner.Installation, Cluster: "b"}, {Installation: "b", Cluster: owner.Cluster}} {
		for _, uid := range []string{"a", "b"} {
			for attempt := range int64(3) {
				what := fmt.Sprint(o, uid, attempt)
				id := kvm.DomainUUID(o, uid, attempt)
				if other := seen[id]; other != "" || id != kvm.DomainUUID(o, uid, attempt) {
					t.Errorf("%s is that of %s and of %s", id, what, other)
				}
				seen[id] = what
			}
		}
	}
}
