package kvm_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestConforms(t *testing.T) {
	seen := &skips{T: providertest.Go(t), all: new([]string)}
	providertest.Run(seen, func(t providertest.T) *providertest.Env { return newWorld(t).conformance() })
	want := []string{
		// Nothing that libvirt has accepted fails afterwards but by the guest's own doing.
		"late-failure-frees-the-next-attempt", "late-failure-is-classified", "late-failure-tells-what-is-left",
		// A daemon does not ask to be left alone.
		"throttling-is-transient",
		// Credentials are in the cloud-init data; others take another instance.
		"update-credentials-changes-them", "update-credentials-spares-others",
		// Domains are listed.
		"watch-ends-with-its-context", "watch-tells-only-of-own", "watch-tells-what-comes", "watch-tells-what-ends", "watch-tells-what-is-gone",
		"watch-tells-what-is-there",
	}
	slices.Sort(*seen.all)
	if !slices.Equal(*seen.all, want) {
		t.Errorf("skipped were\n%s\nwant\n%s", strings.Join(*seen.all, "\n"), strings.Join(want, "\n"))
	}
}

// skips is a T that remembers which parts were skipped.
type skips struct {
	providertest.T
	name string
	all  *[]string
}

func (s *skips) Run(name string, f func(providertest.T)) bool {
	return s.T.Run(name, func(t providertest.T) { f(&skips{T: t, name: name, all: s.all}) })
}

func (s *skips) Skipf(format string, args ...any) {
	*s.all = append(*s.all, s.name)
	s.T.Skipf(format, args...)
}

// conformance is what the suite needs to know of the world.
func (w *world) conformance() *providertest.Env {
	w.extra += "clients: [192.0.2.0/24]\n" // the suite's cloud-init uses no password
	w.warm()
	return w.environment()
}

func (w *world) environment() *providertest.Env {
	bad := func(field, value string, change func(*provider.CreateRequest)) providertest.Invalid {
		req := w.request()
		change(&req)
		return providertest.Invalid{Request: req, Field: field, Value: value}
	}
	wire := w.wires[hostA]
	lose := func(_ string, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		return errLost
	}
	return &providertest.Env{
		Provider: func(name string, o provider.Owner) provider.Provider { return w.providerOf(name, o) },
		Owner:    owner,
		Request:  w.request,
		Invalid: []providertest.Invalid{
			bad("placement.zone", "hv-c", func(r *provider.CreateRequest) { r.Placement.Zone = "hv-c" }),
			bad("placement.region", "mars", func(r *provider.CreateRequest) { r.Placement.Zone, r.Placement.Region = "", "mars" }),
			bad("placement.machineType", "huge", func(r *provider.CreateRequest) { r.Placement.MachineType = "huge" }),
			bad("placement.image", "alpine", func(r *provider.CreateRequest) { r.Placement.Image = "alpine" }),
			bad("port", "70000", func(r *provider.CreateRequest) { r.Port = 70000 }),
			bad("name", "proxy-somebody", func(r *provider.CreateRequest) { r.Name = "proxy-somebody" }),
			bad("marks", "exit\\x01", func(r *provider.CreateRequest) { r.ProxyName = "exit\x01" }),
			bad("cloudInit", "bytes", func(r *provider.CreateRequest) { r.CloudInit = strings.Repeat("x", 3<<20) }),
		},
		ForeignIDs: []string{"hosts/hv-c/domains/" + provider.NameFromUID("x")},
		MalformedIDs: []string{
			"hosts/" + hostA + "/domains/", "hosts/" + hostA + "/domains/other", "hosts//domains/" + provider.NameFromUID("x"),
			"hosts/" + hostA + "/volumes/" + provider.NameFromUID("x"), "hosts/" + hostA + "/domains/" + provider.NameFromUID("x") + "/x",
		},
		Window:    w.window,
		Wait:      w.wait,
		Leftovers: w.leftovers,
		Many:      8,

		Advance:    w.advance,
		HoldBoot:   w.holdBoot,
		HoldCreate: func() (<-chan struct{}, func()) { return wire.Hold(libvirttest.On("DomainLookupByName")) },
		HoldGet:    func() (<-chan struct{}, func()) { return wire.Hold(libvirttest.On("DomainLookupByName")) },
		HoldSend:   func() (<-chan struct{}, func()) { return wire.Hold(libvirttest.On("DomainDefineXMLFlags")) },
		HoldDelete: func() (<-chan struct{}, func()) { return wire.Hold(libvirttest.On("DomainDestroyFlags")) },
		LoseAnswer: func() { wire.Once(libvirttest.On("DomainCreateWithFlags"), lose) },
		ArriveLate: func(d time.Duration) {
			wire.Once(libvirttest.On("DomainCreateWithFlags"), func(_ string, do func() error) error {
				w.later(d, func() { _ = do() })
				return errLost
			})
		},
		ShowLate: func(d time.Duration) {
			wire.Once(libvirttest.On("DomainCreateWithFlags"), func(_ string, do func() error) error {
				w.later(d, func() { _ = do() })
				return nil
			})
		},
		Place: w.place,
		Stop: func(id string) {
			d, name := w.daemon(id)
			d.Set(name, libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown))
		},
		Confuse: func(id string) {
			d, name := w.daemon(id)
			d.Set(name, libvirt.DomainState(42), 0)
		},
		Vanish: func(id string) {
			d, name := w.daemon(id)
			d.Undefine(name)
			for _, v := range d.Volumes() {
				if strings.HasPrefix(v, name) {
					d.RemoveVolume(v)
				}
			}
		},
		LoseMain: func(id string) {
			d, name := w.daemon(id)
			d.Undefine(name)
		},
		BreakScope: func(id string) func() {
			return w.wires[strings.Split(id, "/")[1]].Add(libvirttest.All, func(string, func() error) error { return errLost })
		},
		ExhaustQuota: func() func() {
			d := w.daemons[hostA]
			d.SetRoom(100<<10, 1<<40)
			return func() { d.SetRoom(16<<20, 1<<40) }
		},
		Deny: func() func() {
			denied := func(string, func() error) error {
				return libvirt.Error{Code: uint32(libvirt.ErrAuthFailed), Message: "authentication failed"}
			}
			a, b := wire.Add(libvirttest.All, denied), w.wires[hostB].Add(libvirttest.All, denied)
			return func() { a(); b() }
		},
	}
}

func (w *world) holdBoot() (release func()) {
	set := func(boots bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.boots = boots
	}
	set(false)
	return func() { set(true) }
}

func (w *world) leftovers(context.Context) (left []string, err error) {
	for _, host := range []string{hostA, hostB} {
		for _, d := range w.daemons[host].Domains() {
			left = append(left, fmt.Sprintf("hosts/%s/domains/%s domain %s", host, d.Name, d.UUID))
		}
		for _, v := range w.daemons[host].Volumes() {
			if name, _, ok := strings.Cut(v, "."); ok && strings.HasPrefix(name, "proxy-") {
				left = append(left, fmt.Sprintf("hosts/%s/domains/%s volume %s", host, name, v))
			}
		}
	}
	return left, nil
}

func (w *world) place(id string) func() bool {
	d, name := w.daemon(id)
	d.Place(name, "")
	before := fmt.Sprint(d.Domains())
	return func() bool { return fmt.Sprint(d.Domains()) == before }
}
