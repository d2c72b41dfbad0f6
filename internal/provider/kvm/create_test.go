package kvm_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// creation is what a creation changes, in order.
var creation = []string{"DomainDefineXMLFlags", "StorageVolCreateXML", "StorageVolCreateXML", "StorageVolUpload", "DomainCreateWithFlags"}

func TestTheStepsOfACreation(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	calls := w.since(func() { must(w.t, p.Create(t.Context(), req, ref)) })
	if got := changes(calls); !slices.Equal(got, creation) {
		t.Errorf("changes %v, want %v", got, creation)
	}
	if !slices.Contains(calls, "DomainAgentSetResponseTimeout") {
		t.Error("the guest's agent may hold up the daemon")
	}
	w.whole(t, "a creation", req, ref)
	// Once it runs, or has run, nothing is done any more.
	for _, state := range []struct {
		state  libvirt.DomainState
		reason libvirt.DomainShutoffReason
	}{{libvirt.DomainRunning, 1}, {libvirt.DomainPaused, 1}, {libvirt.DomainShutoff, libvirt.DomainShutoffShutdown}, {libvirt.DomainShutoff, libvirt.DomainShutoffFailed}, {libvirt.DomainCrashed, 0}} {
		w.daemons[hostA].Set(req.Name, state.state, int32(state.reason))
		calls := w.since(func() { must(w.t, p.Create(t.Context(), req, ref)) })
		if got := changes(calls); len(got) > 0 {
			t.Errorf("in state %v: %v", state, got)
		}
	}
}

// whole checks that there is one instance with all that belongs to it, and that nothing was removed on the way.
func (w *world) whole(t *testing.T, when string, req provider.CreateRequest, ref provider.Ref) {
	t.Helper()
	d := w.daemons[hostA]
	all := d.Domains()
	if len(all) != 1 || all[0].Name != req.Name || all[0].UUID != kvm.DomainUUID(owner, req.UID, ref.Attempt) || all[0].State != libvirt.DomainRunning {
		t.Errorf("%s: domains %+v", when, all)
		return
	}
	disk, seed := kvm.VolumesOf(owner, hostA, req.UID, ref.Attempt)
	if left := w.instances(); !slices.Equal(left, []string{disk, seed}) {
		t.Errorf("%s: volumes %q", when, left)
		return
	}
	if s, _ := d.Shape(disk); s.Capacity != 4<<30 || s.Format != "qcow2" || !strings.HasPrefix(s.Backing, libvirttest.PoolFolder+"/epx-base-"+sum(image)) || !strings.HasSuffix(s.Backing, "|raw") {
		t.Errorf("%s: disk %+v", when, s)
	}
	s, _ := d.Shape(seed)
	content, _ := d.Volume(seed)
	if s.Capacity != uint64(len(content)) || s.Format != "raw" || s.Backing != "" || !strings.Contains(string(content), req.CloudInit) {
		t.Errorf("%s: seed %+v with %d bytes", when, s, len(content))
	}
	for _, call := range w.wires[hostA].Seen() {
		if slices.Contains([]string{"DomainDestroyFlags", "DomainUndefineFlags", "StorageVolDelete"}, call) {
			t.Errorf("%s: it has made the call %s", when, call)
		}
	}
}

// die lets the process end at its n-th call from now, before or after that has been made.
func die(wire *libvirttest.Wire, n int, after bool) (revive func()) {
	var mu sync.Mutex
	return wire.Add(libvirttest.All, func(_ string, do func() error) error {
		mu.Lock()
		n--
		left := n
		mu.Unlock()
		if left > 0 {
			return do()
		}
		if left == 0 && after {
			if err := do(); err != nil {
				return err
			}
		}
		return errLost
	})
}

// Wherever a process dies in a creation, the next one completes it.
func TestACreationThatIsInterrupted(t *testing.T) {
	w := newT(t)
	first := w.provider()
	req := w.request()
	steps := len(w.since(func() { must(w.t, first.Create(t.Context(), req, w.ref(req, 1))) }))
	for n := 1; n <= steps; n++ {
		for _, after := range []bool{false, true} {
			when := fmt.Sprintf("call %d of %d, made: %t", n, steps, after)
			w := newT(t)
			req := w.request()
			ref := w.ref(req, 1)
			p := w.provider()
			revive := die(w.wires[hostA], n, after)
			err := p.Create(t.Context(), req, ref)
			revive()
			if err == nil && n < steps {
				t.Errorf("%s: it has not failed", when)
			}
			if n > 1 {
				// Whatever it has begun is not taken for absent while it may be on its way.
				if got := w.state(w.provider(), ref); got != "Provisioning" {
					t.Errorf("%s: %s", when, got)
				}
			}
			seen := w.since(func() {
				if err := w.provider().Create(t.Context(), req, ref); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			})
			w.whole(t, when, req, ref)
			if d := len(changes(seen)); err == nil && d > 0 {
				t.Errorf("%s: it succeeded, and the next one made %d changes", when, d)
			}
		}
	}
}

// Many processes that create the same make one.
func TestCreationsAtATime(t *testing.T) {
	w := newT(t)
	req := w.request()
	ref := w.ref(req, 1)
	var wg sync.WaitGroup
	for range 8 {
		p := w.provider()
		wg.Go(func() {
			if err := p.Create(t.Context(), req, ref); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.whole(t, "eight at a time", req, ref)
}

// half makes what a process leaves that dies before the call of that name which is the n-th of its kind.
func (w *world) half(req provider.CreateRequest, ref provider.Ref, call string, n int) {
	w.t.Helper()
	remove := w.wires[hostA].Add(libvirttest.On(call), func(_ string, do func() error) error {
		if n--; n > 0 {
			return do()
		}
		return errLost
	})
	defer remove()
	if err := w.provider().Create(w.t.Context(), req, ref); !errors.Is(err, errLost) {
		w.t.Fatalf("%v", err)
	}
}

// A disk that is there is taken only if it is just the one that would be made.
func TestADiskThatIsThere(t *testing.T) {
	var good libvirttest.Shape
	for _, tc := range []struct {
		reason string
		change func(*libvirttest.Shape)
		says   string
	}{
		{"the same", func(*libvirttest.Shape) {}, ""},
		{"a smaller one", func(s *libvirttest.Shape) { s.Capacity-- }, "has 4294967295 bytes, not 4294967296"},
		{"a larger one", func(s *libvirttest.Shape) { s.Capacity++ }, "has 4294967297 bytes, not 4294967296"},
		{"another base", func(s *libvirttest.Shape) { s.Backing = libvirttest.PoolFolder + "/other|raw" }, "another base image"},
		{"the base as another format", func(s *libvirttest.Shape) { s.Backing = strings.Replace(s.Backing, "|raw", "|qcow2", 1) }, "another base image"},
		{"none", func(s *libvirttest.Shape) { s.Backing = "" }, "another base image"},
	} {
		w := newT(t)
		req := w.request()
		ref := w.ref(req, 1)
		w.half(req, ref, "StorageVolUpload", 1)
		disk, seed := kvm.VolumesOf(owner, hostA, req.UID, 1)
		good, _ = w.daemons[hostA].Shape(disk)
		tc.change(&good)
		w.daemons[hostA].Reshape(disk, good)
		err := w.provider().Create(t.Context(), req, ref)
		if tc.says == "" {
			must(w.t, err)
			w.whole(t, tc.reason, req, ref)
			continue
		}
		expect(t, tc.reason, err, provider.ErrTransient, "", tc.says)
		content, _ := w.daemons[hostA].Volume(seed)
		if got, _ := w.daemons[hostA].Shape(disk); got != good || len(content) > 0 || w.only().State != libvirt.DomainShutoff {
			t.Errorf("%s: it was made %+v, the seed has %d bytes", tc.reason, got, len(content))
		}
	}
	// What cannot be read is not taken, either.
	for _, call := range []string{"StorageVolGetXMLDesc", "StorageVolGetInfo"} {
		w := newT(t)
		req := w.request()
		ref := w.ref(req, 1)
		w.half(req, ref, "DomainCreateWithFlags", 1)
		calls, n := 0, 0
		if call == "StorageVolGetInfo" {
			n = 1 // the first is of the base image's marker
		}
		w.wires[hostA].Add(libvirttest.On(call), func(_ string, do func() error) error {
			if calls++; calls > n*len(base.volumes) {
				return libvirt.Error{Code: uint32(libvirt.ErrInternalError), Message: "unreadable"}
			}
			return do()
		})
		expect(t, call, w.provider().Create(t.Context(), req, ref), provider.ErrTransient, "", "unreadable")
	}
}

// A seed that is there may be half written. It is written again if it has the size, and otherwise refused.
func TestASeedThatIsThere(t *testing.T) {
	w := newT(t)
	req := w.request()
	ref := w.ref(req, 1)
	w.half(req, ref, "StorageVolUpload", 1)
	must(w.t, w.provider().Create(t.Context(), req, ref))
	w.whole(t, "an empty seed", req, ref)

	w = newT(t)
	req = w.request()
	ref = w.ref(req, 1)
	w.half(req, ref, "DomainCreateWithFlags", 1)
	before, _ := w.daemons[hostA].Volume(w.volume(ref, "seed.iso"))
	other := req
	other.CloudInit += strings.Repeat("#", 4096)
	expect(t, "a seed of another size", w.provider().Create(t.Context(), other, ref), provider.ErrTransient, "", "the seed that is there")
	if after, _ := w.daemons[hostA].Volume(w.volume(ref, "seed.iso")); string(after) != string(before) || w.only().State != libvirt.DomainShutoff {
		t.Error("it was written over, or started")
	}
	must(w.t, w.provider().Create(t.Context(), req, ref))
	w.whole(t, "the seed of the same size", req, ref)
}

// What was begun from another spec is not completed.
func TestACreationOfAnotherSpec(t *testing.T) {
	w := newT(t)
	req := w.request()
	ref := w.ref(req, 1)
	w.half(req, ref, "StorageVolCreateXML", 1)
	other := req
	other.Spec = "v1-fedcba9876543210"
	calls := w.since(func() {
		expect(t, "another spec", w.provider().Create(t.Context(), other, ref), provider.ErrTransient, "", "another spec")
	})
	if got := changes(calls); len(got) > 0 {
		t.Errorf("changes %v", got)
	}
	must(w.t, w.provider().Create(t.Context(), req, ref))
	w.whole(t, "the same spec", req, ref)
}

// A disk is never smaller than what is on it.
func TestALargeBaseImage(t *testing.T) {
	for _, tc := range []struct{ base, want uint64 }{{4<<30 - 1, 4 << 30}, {4<<30 + 1, 4<<30 + 1024}, {4<<30 + 512, 4<<30 + 1024}, {6 << 30, 6 << 30}} {
		w := newT(t)
		d := w.daemons[hostA]
		for name := range base.volumes {
			if strings.HasSuffix(name, ".ready") {
				d.AddVolume(name, tc.base)
			}
		}
		req := w.request()
		ref := w.ref(req, 1)
		// What stands there after a creation that was broken off is just what is wanted, though libvirt counts in KiB.
		w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), fails(libvirt.ErrInternalError))
		expect(t, "broken off", w.provider().Create(t.Context(), req, ref), provider.ErrTransient, "")
		must(w.t, w.provider().Create(t.Context(), req, ref))
		if s, _ := d.Shape(w.volume(ref, "disk.qcow2")); s.Capacity != tc.want {
			t.Errorf("base of %d bytes: disk of %d, want %d", tc.base, s.Capacity, tc.want)
		}
	}
}

// Once the record is too old, nothing more is sent, wherever the creation is.
func TestTheWindowClosesDuringACreation(t *testing.T) {
	for n, call := range creation {
		w := newT(t)
		p := w.provider()
		req := w.request()
		ref := w.ref(req, 1)
		made := 0
		w.wires[hostA].Add(libvirttest.On(changing...), func(_ string, do func() error) error {
			err := do()
			if made++; made == n+1 {
				w.clock.Step(w.window.CallTimeout)
			}
			return err
		})
		err := p.Create(t.Context(), req, ref)
		if got := changes(w.wires[hostA].Seen()); !slices.Equal(got, creation[:n+1]) {
			t.Errorf("after %s: changes %v", call, got)
		}
		if n == len(creation)-1 {
			must(w.t, err)
			continue
		}
		expect(t, "after "+call, err, provider.ErrTransient, provider.ReasonWindowClosed)
	}
	w := newT(t)
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	w.clock.Step(w.window.CallTimeout)
	calls := w.since(func() {
		expect(t, "before all", p.Create(t.Context(), req, ref), provider.ErrTransient, provider.ReasonWindowClosed)
	})
	if len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
	// Nor is a call waited for any longer.
	w = newT(t)
	ref = w.ref(req, 1)
	w.clock.Step(w.window.CallTimeout - 5*time.Second)
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.provider()
		free := make(chan struct{})
		defer close(free)
		w.wires[hostA].Add(libvirttest.On("StorageVolUpload"), func(string, func() error) error { <-free; return errLost })
		began := time.Now()
		expect(t, "a call that hangs", p.Create(t.Context(), req, ref), provider.ErrTransient, "")
		if d := time.Since(began); d != 5*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
