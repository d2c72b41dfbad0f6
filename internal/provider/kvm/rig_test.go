package kvm_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// base is what a download has left in a pool once it has ended.
var base struct {
	once    sync.Once
	volumes map[string]uint64 // capacities by name
}

// newT returns a world whose hosts have the image.
func newT(t *testing.T) *world {
	t.Helper()
	w := newWorld(providertest.Go(t))
	base.once.Do(func() {
		first := newWorld(providertest.Go(t))
		first.warm()
		d := first.daemons[hostA]
		base.volumes = map[string]uint64{}
		for _, name := range d.Volumes() {
			s, _ := d.Shape(name)
			base.volumes[name] = s.Capacity
		}
	})
	for _, d := range w.daemons {
		for name, capacity := range base.volumes {
			d.AddVolume(name, capacity)
		}
	}
	return w
}

func expect(t *testing.T, what string, err, class error, reason string, mentions ...string) {
	t.Helper()
	if err == nil || provider.Class(err) != class || provider.Reason(err) != reason {
		t.Errorf("%s: %v (%s, reason %q), want %v with reason %q", what, err, provider.ClassName(err), provider.Reason(err), class, reason)
		return
	}
	for _, m := range mentions {
		if !strings.Contains(err.Error(), m) {
			t.Errorf("%s: %v, want a mention of %q", what, err, m)
		}
	}
}

// state is what Get says, in short.
func (w *world) state(p *kvm.Provider, ref provider.Ref) string {
	inst, err := p.Get(w.t.Context(), ref)
	if err != nil {
		return strings.TrimSpace(provider.ClassName(err) + " " + provider.Reason(err))
	}
	s := string(inst.State)
	if inst.Marks.Attempt != ref.Attempt && inst.Identity != "" {
		s += fmt.Sprintf(" (attempt %d)", inst.Marks.Attempt)
	}
	if inst.Err != nil {
		s += " " + provider.ClassName(inst.Err)
	}
	if inst.Left {
		s += " left"
	}
	return s
}

func (w *world) expect(t *testing.T, when string, p *kvm.Provider, ref provider.Ref, want string) {
	t.Helper()
	if got := w.state(p, ref); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// list returns what ListByTag shows, in short.
func (w *world) list(p *kvm.Provider) (shown, unread []string) {
	w.t.Helper()
	l, err := p.ListByTag(w.t.Context())
	must(w.t, err)
	for _, inst := range l.Instances {
		shown = append(shown, string(inst.State)+" "+inst.ID)
	}
	return shown, l.Unread
}

// made creates the first attempt of a new request, and boots it.
func (w *world) made(p *kvm.Provider) (provider.CreateRequest, provider.Ref) {
	w.t.Helper()
	req := w.request()
	ref := w.ref(req, 1)
	must(w.t, p.Create(w.t.Context(), req, ref))
	for _, d := range w.daemons {
		d.Boot()
	}
	return req, ref
}

// instances returns the volumes that are no base images, of all hosts.
func (w *world) instances() (left []string) {
	for _, host := range []string{hostA, hostB} {
		for _, v := range w.daemons[host].Volumes() {
			if strings.HasPrefix(v, "proxy-") {
				left = append(left, v)
			}
		}
	}
	return left
}

// only returns the one domain of host A, and fails if there is none or another one.
func (w *world) only() libvirttest.Entry {
	w.t.Helper()
	all := w.daemons[hostA].Domains()
	if len(all) != 1 {
		w.t.Fatalf("domains: %v, want one", all)
	}
	return all[0]
}

// volume returns the name of the instance's volume with that ending.
func (w *world) volume(ref provider.Ref, ending string) string {
	w.t.Helper()
	d, name := w.daemon(ref.ID)
	for _, v := range d.Volumes() {
		if strings.HasPrefix(v, name+".") && strings.HasSuffix(v, ending) {
			return v
		}
	}
	w.t.Fatalf("there is no volume %s…%s", name, ending)
	return ""
}

// fails lets the calls of these names fail with libvirt's code.
func fails(code libvirt.ErrorNumber) libvirttest.Fault {
	return func(call string, _ func() error) error {
		return libvirt.Error{Code: uint32(code), Message: "refused by the test: " + call}
	}
}

// changing are the calls that change something on a host.
var changing = []string{
	"DomainDefineXMLFlags", "DomainCreateWithFlags", "DomainDestroyFlags", "DomainUndefineFlags",
	"StorageVolCreateXML", "StorageVolUpload", "StorageVolDelete",
}

// changes returns those of the calls that change something.
func changes(calls []string) (out []string) {
	for _, call := range calls {
		if slices.Contains(changing, call) {
			out = append(out, call)
		}
	}
	return out
}

// since returns what was called on host A while do ran.
func (w *world) since(do func()) []string {
	before := len(w.wires[hostA].Seen())
	do()
	return w.wires[hostA].Seen()[before:]
}

// quiet is a T for what is outside of any test.
type quiet struct{ providertest.T }

func (quiet) Helper()        {}
func (quiet) Cleanup(func()) {}
