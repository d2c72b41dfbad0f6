package kvm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// on makes an instance on a host.
func (w *world) on(p *kvm.Provider, host string) provider.Ref {
	w.t.Helper()
	req := w.request()
	req.Placement.Zone = host
	ref := w.ref(req, 1)
	must(w.t, p.Create(w.t.Context(), req, ref))
	w.daemons[host].Boot()
	return ref
}

func TestTheListOfTwoHosts(t *testing.T) {
	w := newT(t)
	p := w.provider()
	var want []string
	for i := range 6 {
		want = append(want, "Running "+w.on(p, []string{hostA, hostB}[i%2]).ID)
	}
	slices.Sort(want)
	// Strangers, and others' of this operator.
	w.daemons[hostA].Place("web", "")
	other := w.providerOf(entry, provider.Owner{Installation: "other", Cluster: owner.Cluster})
	w.on(other, hostA)
	elsewhere := w.providerOf(entry, provider.Owner{Installation: owner.Installation, Cluster: "other"})
	w.on(elsewhere, hostB)
	if shown, unread := w.list(p); !slices.Equal(shown, want) || len(unread) > 0 {
		t.Errorf("%q, unread %q, want %q", shown, unread, want)
	}
	// What one host has is shown while the other one is away.
	remove := w.wires[hostB].Add(libvirttest.All, func(string, func() error) error { return errLost })
	half := slices.DeleteFunc(slices.Clone(want), func(s string) bool { return strings.Contains(s, hostB) })
	if shown, unread := w.list(p); !slices.Equal(shown, half) || !slices.Equal(unread, []string{"hosts/" + hostB}) {
		t.Errorf("%q, unread %q, want %q", shown, unread, half)
	}
	w.wires[hostA].Add(libvirttest.On("DomainGetState"), fails(libvirt.ErrAccessDenied))
	l, err := p.ListByTag(t.Context())
	expect(t, "both away", err, provider.ErrDenied, "", "DomainGetState")
	if len(l.Instances)+len(l.Unread) > 0 {
		t.Errorf("%+v beside an error", l)
	}
	remove()
	if shown, unread := w.list(p); len(shown) != 3 || !slices.Equal(unread, []string{"hosts/" + hostA}) {
		t.Errorf("%q, unread %q", shown, unread)
	}
}

// Whatever cannot be read of a host makes all of it unread: what is missing would be taken for gone.
func TestWhatCannotBeListed(t *testing.T) {
	for _, call := range []string{"StoragePoolLookupByName", "StoragePoolListAllVolumes", "ConnectListAllDomains", "DomainGetMetadata", "DomainGetState"} {
		w := newT(t)
		p := w.provider()
		w.on(p, hostA)
		ref := w.on(p, hostB)
		w.wires[hostA].Add(libvirttest.On(call), fails(libvirt.ErrInternalError))
		if shown, unread := w.list(p); !slices.Equal(shown, []string{"Running " + ref.ID}) || !slices.Equal(unread, []string{"hosts/" + hostA}) {
			t.Errorf("without %s: %q, unread %q", call, shown, unread)
		}
	}
}

// Domains, and what is left of others, are listed by ID, once each.
func TestTheListIsSorted(t *testing.T) {
	w := newT(t)
	p := w.provider()
	var want []string
	for i := range 12 {
		ref := w.on(p, hostA)
		_, name := w.daemon(ref.ID)
		switch i % 3 {
		case 0:
			want = append(want, "Running "+ref.ID)
		case 1:
			w.daemons[hostA].Undefine(name)
			want = append(want, "Terminated "+ref.ID)
		default:
			w.daemons[hostA].Rename(name, fmt.Sprintf("a-%d", i))
			want = append(want, "Running "+ref.ID)
		}
	}
	byID := func(a, b string) int {
		_, a, _ = strings.Cut(a, " ")
		_, b, _ = strings.Cut(b, " ")
		return strings.Compare(a, b)
	}
	slices.SortFunc(want, byID)
	for range 3 {
		if shown, _ := w.list(p); !slices.Equal(shown, want) {
			t.Errorf("%q, want %q", shown, want)
		}
	}
}

// Volumes of an attempt whose domain has gone stand beside the domain of the next one.
func TestTwoAttemptsAreListed(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	disk, _ := kvm.VolumesOf(owner, hostA, req.UID, 7)
	w.daemons[hostA].AddVolume(disk, 1)
	l, err := p.ListByTag(t.Context())
	must(w.t, err)
	if len(l.Instances) != 2 || l.Instances[0].ID != ref.ID || l.Instances[1].ID != ref.ID || l.Instances[0].Identity == l.Instances[1].Identity ||
		l.Instances[0].Marks.Attempt+l.Instances[1].Marks.Attempt != 8 {
		t.Errorf("%+v", l.Instances)
	}
}

// A domain that goes between the list and the look at it is not there.
func TestADomainThatVanishesFromTheList(t *testing.T) {
	for _, call := range []string{"DomainGetMetadata", "DomainGetState", "NetworkLookupByName"} {
		w := newT(t)
		p := w.provider()
		gone, stays := w.on(p, hostA), w.on(p, hostA)
		d, name := w.daemon(gone.ID)
		disk, seed := w.volume(gone, "disk.qcow2"), w.volume(gone, "seed.iso")
		w.wires[hostA].Once(libvirttest.On("ConnectListAllDomains"), func(_ string, do func() error) error {
			w.wires[hostA].Once(libvirttest.On(call), func(_ string, do func() error) error {
				d.Undefine(name)
				d.RemoveVolume(disk)
				d.RemoveVolume(seed)
				return do()
			})
			return do()
		})
		shown, unread := w.list(p)
		if !slices.Contains(shown, "Running "+stays.ID) || len(unread) > 0 {
			t.Errorf("before %s: %q, unread %q", call, shown, unread)
		}
		if shown, _ := w.list(p); !slices.Equal(shown, []string{"Running " + stays.ID}) {
			t.Errorf("after it: %q", shown)
		}
	}
}

// What is made while the list is read shows as what it is, and not as what is left.
func TestACreationDuringTheList(t *testing.T) {
	w := newT(t)
	p := w.provider()
	for _, call := range []string{"StoragePoolListAllVolumes", "ConnectListAllDomains"} {
		var ref provider.Ref
		w.wires[hostA].Once(libvirttest.On(call), func(_ string, do func() error) error {
			ref = w.on(w.provider(), hostA)
			return do()
		})
		if shown, _ := w.list(p); !slices.Contains(shown, "Running "+ref.ID) {
			t.Errorf("before %s: %q", call, shown)
		}
	}
}

// A list costs at most three calls for a domain and six besides.
func TestTheCostOfAList(t *testing.T) {
	w := newT(t)
	p := w.onlyA()
	const domains = 200
	for range domains {
		w.on(p, hostA)
	}
	var shown []string
	calls := w.since(func() { shown, _ = w.list(p) })
	if len(shown) != domains || len(calls) > 3*domains+6 {
		t.Errorf("%d calls for %d domains", len(calls), len(shown))
	}
	leases := 0
	for _, call := range calls {
		if call == "NetworkGetDhcpLeases" {
			leases++
		}
	}
	if leases != 1 {
		t.Errorf("leases were read %d times", leases)
	}
	w.daemons[hostA].Forget()
	if calls := w.since(func() { _, _ = w.list(p) }); len(calls) > 3*domains+6 {
		t.Errorf("%d calls for %d domains whose agents are asked", len(calls), domains)
	}
}

// Two hosts may share a pool. What belongs to one of them is neither shown nor removed by way of the other.
func TestTwoHostsWithOnePool(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	for _, v := range w.daemons[hostA].Volumes() {
		w.daemons[hostB].AddVolume(v, 1)
	}
	shared := w.daemons[hostB].Volumes()
	listing, err := p.ListByTag(t.Context())
	if err != nil || len(listing.Instances) != 1 || listing.Instances[0].ID != ref.ID {
		t.Errorf("listed is %+v, %v", listing, err)
	}
	other := w.old(ref)
	other.ID = "hosts/" + hostB + "/domains/" + provider.NameFromUID(ref.UID)
	must(w.t, p.Delete(t.Context(), other))
	if now := w.daemons[hostB].Volumes(); !slices.Equal(now, shared) {
		t.Errorf("of %q are left %q", shared, now)
	}
	if _, err := p.Get(t.Context(), other); !errors.Is(err, provider.ErrNotFound) {
		t.Errorf("Get on the other host = %v", err)
	}
}
