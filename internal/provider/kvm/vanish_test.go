package kvm_test

import (
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// Things go while they are read, by other processes or hands.
func TestObjectsThatVanish(t *testing.T) {
	type vanishing struct {
		at   string         // the call before which
		do   func(w *world) // somebody takes it away
		op   string
		want string // what is said, "" for success
	}
	domain := func(w *world) { w.daemons[hostA].Undefine(w.daemons[hostA].Domains()[0].Name) }
	volumes := func(w *world) {
		for _, v := range w.instances() {
			w.daemons[hostA].RemoveVolume(v)
		}
	}
	base := func(w *world) {
		for _, v := range w.daemons[hostA].Volumes() {
			if strings.HasPrefix(v, "epx-base-") {
				w.daemons[hostA].RemoveVolume(v)
			}
		}
	}
	missing := func(code libvirt.ErrorNumber, call string) func(w *world) {
		return func(w *world) { w.wires[hostA].Add(libvirttest.On(call), fails(code)) }
	}
	for _, v := range []vanishing{
		{"DomainGetMetadata", domain, "list", "Terminated"}, // its volumes are left
		{"DomainGetState", domain, "list", "Terminated"},
		{"NetworkGetDhcpLeases", domain, "list", "Running"}, // it was there when it was read
		{"DomainGetMetadata", domain, "get", "Terminated"},
		{"DomainGetState", domain, "get", "Terminated"},
		{"DomainGetMetadata", domain, "delete", ""},
		{"DomainDestroyFlags", domain, "delete", ""},
		{"DomainUndefineFlags", domain, "delete", ""},
		{"StorageVolLookupByName", volumes, "delete", ""},
		{"StorageVolDelete", volumes, "delete", ""},
		{"StorageVolLookupByName", base, "plan", "being downloaded"},
		{"StorageVolGetInfo", base, "plan", "being downloaded"},
		{"StorageVolCreateXML", base, "create", "transient"},
		{"StorageVolUpload", func(w *world) { w.daemons[hostA].RemoveVolume(w.instances()[len(w.instances())-1]) }, "create", "transient"},
		{"DomainCreateWithFlags", domain, "create", "transient"},
		{"DomainCreateWithFlags", volumes, "create", "transient"},
		{"DomainAgentSetResponseTimeout", domain, "create", ""},
		{"StoragePoolLookupByName", missing(libvirt.ErrNoStoragePool, "StoragePoolGetXMLDesc"), "create", "transient"},
		{"StoragePoolLookupByName", missing(libvirt.ErrNoStoragePool, "StoragePoolListAllVolumes"), "list", "transient"},
		{"DomainGetState", missing(libvirt.ErrNoNetwork, "NetworkGetDhcpLeases"), "get", "Unknown"}, // nobody knows its address
		{"DomainGetState", missing(libvirt.ErrNoNetwork, "NetworkLookupByName"), "get", "Unknown"},
	} {
		t.Run(v.op+" before "+v.at, func(t *testing.T) {
			w := newT(t)
			p := w.through(w.overSSH(t), hostA)
			var ref provider.Ref
			if v.op != "create" {
				_, ref = w.made(p)
			}
			w.wires[hostA].Once(libvirttest.On(v.at), func(_ string, do func() error) error {
				v.do(w)
				return do()
			})
			req := w.request()
			var got string
			var err error
			switch v.op {
			case "list":
				var l provider.Listing
				if l, err = p.ListByTag(t.Context()); err == nil {
					for _, inst := range l.Instances {
						got += string(inst.State)
					}
				}
			case "get":
				var inst *provider.Instance
				if inst, err = p.Get(t.Context(), w.old(ref)); err == nil {
					got = string(inst.State)
				}
			case "delete":
				if err = p.Delete(t.Context(), ref); err == nil && len(w.instances())+len(w.daemons[hostA].Domains()) > 0 {
					got = "something is left"
				}
			case "plan":
				_, err = p.Plan(t.Context(), req)
			case "create":
				err = p.Create(t.Context(), req, w.ref(req, 1))
			}
			if err != nil {
				got = provider.ClassName(err) + ": " + err.Error()
			}
			if v.want == "" && got != "" || !strings.Contains(strings.ToLower(got), strings.ToLower(v.want)) {
				t.Errorf("%q, want %q", got, v.want)
			}
			must(w.t, p.Close())
		})
	}
}
