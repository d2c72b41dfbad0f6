package kvm_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session/wiretest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// The connection dies while the seed is written: the domain is not started, and what comes next writes all of it.
func TestDeathInMidSeed(t *testing.T) {
	for name, die := range map[string]func(h *hypervisor){
		"of the host":    func(h *hypervisor) { h.CutAll() },
		"of the daemon":  func(h *hypervisor) { h.libvirt.Cut() },
		"of its process": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t)
			all := w.overSSH(t)
			p := w.through(all, hostA)
			req := w.request()
			ref := w.ref(req, 1)
			if die == nil {
				// libvirtd says that the stream has ended before it says why.
				all[hostA].libvirt.SetFault(on("StorageVolUpload", func(c *wiretest.Call) {
					c.Conn.Send(c.Answer(nil).Bytes())
					c.Conn.Send(c.Stream(2, nil).Bytes())
					c.Conn.Send(c.StreamError(libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "Input/output error"}).Bytes())
				}))
				err := p.Create(t.Context(), req, ref)
				expect(t, "Create", err, provider.ErrTransient, "", "StorageVolUpload", "Input/output error")
			} else {
				w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
					die(all[hostA])
					return do()
				})
				err := p.Create(t.Context(), req, ref)
				expect(t, "Create", err, provider.ErrTransient, provider.ReasonUnreachable, "StorageVolUpload: the connection was lost")
			}
			if e := w.only(); e.State != libvirt.DomainShutoff {
				t.Errorf("the domain is in state %d", e.State)
			}
			if got, _ := w.daemons[hostA].Volume(w.volume(ref, "seed.iso")); len(got) != 0 {
				t.Errorf("%d bytes of the seed are there", len(got))
			}
			w.expect(t, "after that", p, ref, "Provisioning")
			all[hostA].libvirt.SetFault(nil)
			must(w.t, p.Create(t.Context(), req, ref))
			seed, err := kvm.SeedISO(w.only().UUID, req.Name, req.CloudInit, false)
			must(w.t, err)
			if got, _ := w.daemons[hostA].Volume(w.volume(ref, "seed.iso")); len(got) != len(seed) || !bytes.Contains(got, []byte("#cloud-config")) {
				t.Errorf("%d bytes of the seed are there, want %d", len(got), len(seed))
			}
			w.comesUp(t, "created", p, ref)
			must(w.t, p.Delete(t.Context(), ref))
			if left := w.instances(); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// planned asks until a download has ended one way or the other, and returns what Plan says then.
func (w *world) planned(p *kvm.Provider, req provider.CreateRequest) error {
	w.t.Helper()
	for range 5000 {
		_, err := p.Plan(w.t.Context(), req)
		// What ends the download's connection may have ended the shared one, too.
		if err == nil || !strings.Contains(err.Error(), "is being downloaded") && (strings.Contains(err.Error(), "image") || provider.Reason(err) != provider.ReasonUnreachable) {
			return err
		}
		must(w.t, pause(w.t.Context()))
	}
	w.t.Fatalf("the download has no end")
	return nil
}

// The connection dies while a base image is written: what there is of it is not used and does not stay.
func TestDeathInMidImage(t *testing.T) {
	for name, die := range map[string]func(h *hypervisor){
		"of the host":    func(h *hypervisor) { h.CutAll() },
		"of the daemon":  func(h *hypervisor) { h.libvirt.Cut() },
		"of its process": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(providertest.Go(t)) // whose hosts have no image
			all := w.overSSH(t)
			p := w.through(all, hostA)
			req := w.request()
			if die == nil {
				all[hostA].libvirt.SetFault(on("StorageVolUpload", func(c *wiretest.Call) {
					c.Conn.Send(c.Answer(nil).Bytes())
					c.Conn.Send(c.Stream(2, nil).Bytes())
					c.Conn.Send(c.StreamError(libvirt.Error{Code: uint32(libvirt.ErrSystemError), Message: "Input/output error"}).Bytes())
				}))
			} else {
				w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
					die(all[hostA])
					return do()
				})
			}
			for range 2 { // it is not tried again at once
				expect(t, "Plan", w.planned(p, req), provider.ErrTransient, "", "image", "StorageVolUpload")
				ref := w.ref(req, 1)
				expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrTransient, "", "StorageVolUpload")
			}
			if v := w.daemons[hostA].Volumes(); len(v) > 0 {
				t.Errorf("left are %v", v)
			}
			all[hostA].libvirt.SetFault(nil)
			w.clock.Step(time.Minute)
			must(w.t, w.planned(p, req))
			var whole int
			for _, v := range w.daemons[hostA].Volumes() {
				if got, _ := w.daemons[hostA].Volume(v); bytes.Equal(got, image) {
					whole++
				}
			}
			if v := w.daemons[hostA].Volumes(); whole != 1 || len(v) != 2 {
				t.Errorf("there are %v, %d of them with the image", v, whole)
			}
		})
	}
}
