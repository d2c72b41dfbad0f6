package kvm_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// nothing checks that there is nothing left but base images.
func (w *world) nothing(t *testing.T, when string) {
	t.Helper()
	for host, d := range w.daemons {
		if all := d.Domains(); len(all) > 0 {
			t.Errorf("%s: domains on %s: %+v", when, host, all)
		}
		for name := range base.volumes {
			if _, ok := d.Volume(name); !ok {
				t.Errorf("%s: the base image has gone from %s", when, host)
			}
		}
	}
	if left := w.instances(); len(left) > 0 {
		t.Errorf("%s: volumes %q", when, left)
	}
}

// The domain goes last: as long as anything is left, it says whose.
func TestTheStepsOfARemoval(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	calls := w.since(func() { must(w.t, p.Delete(t.Context(), ref)) })
	if got, want := changes(calls), []string{"DomainDestroyFlags", "StorageVolDelete", "StorageVolDelete", "DomainUndefineFlags"}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
	w.nothing(t, "a removal")
	calls = w.since(func() { must(w.t, p.Delete(t.Context(), ref)) })
	if got := changes(calls); len(got) > 0 {
		t.Errorf("changes of nothing: %v", got)
	}
}

func TestARemovalFromEveryState(t *testing.T) {
	for state := libvirt.DomainNostate; state <= libvirt.DomainPmsuspended+1; state++ {
		for _, reason := range []int32{0, 1, 5, 6} {
			w := newT(t)
			p := w.provider()
			_, ref := w.made(p)
			d, name := w.daemon(ref.ID)
			d.Set(name, state, reason)
			d.Keep(name, libvirt.DomainUndefineManagedSave|libvirt.DomainUndefineSnapshotsMetadata|libvirt.DomainUndefineNvram|libvirt.DomainUndefineCheckpointsMetadata)
			when := fmt.Sprintf("state %d, reason %d", state, reason)
			if err := p.Delete(t.Context(), ref); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			w.nothing(t, when)
		}
	}
}

// Wherever a process dies in a removal, the instance is still to be seen, and the next one completes it.
func TestARemovalThatIsInterrupted(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	steps := len(w.since(func() { must(w.t, p.Delete(t.Context(), ref)) }))
	for n := 1; n <= steps; n++ {
		for _, after := range []bool{false, true} {
			when := fmt.Sprintf("call %d of %d, made: %t", n, steps, after)
			w := newT(t)
			p := w.provider()
			_, ref := w.made(p)
			revive := die(w.wires[hostA], n, after)
			err := p.Delete(t.Context(), ref)
			revive()
			if err == nil && n < steps {
				t.Errorf("%s: it has not failed", when)
			}
			anything := len(w.daemons[hostA].Domains())+len(w.instances()) > 0
			next := w.provider()
			if got := w.state(next, w.old(ref)); (got == "not_found") == anything {
				t.Errorf("%s: %s, and something is left: %t", when, got, anything)
			}
			if shown, _ := w.list(next); (len(shown) == 1 && strings.HasSuffix(shown[0], ref.ID)) != anything {
				t.Errorf("%s: list %q, and something is left: %t", when, shown, anything)
			}
			if len(w.instances()) > 0 && len(w.daemons[hostA].Domains()) == 0 {
				t.Errorf("%s: the domain has gone before %q", when, w.instances())
			}
			if err := next.Delete(t.Context(), ref); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			w.nothing(t, when)
		}
	}
}

// A domain that QEMU cannot end in peace is killed.
func TestAStuckDomain(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	w.wires[hostA].Once(libvirttest.On("DomainDestroyFlags"), fails(libvirt.ErrSystemError))
	calls := w.since(func() { must(w.t, p.Delete(t.Context(), ref)) })
	if got, want := changes(calls), []string{"DomainDestroyFlags", "DomainDestroyFlags", "StorageVolDelete", "StorageVolDelete", "DomainUndefineFlags"}; !slices.Equal(got, want) {
		t.Errorf("changes %v, want %v", got, want)
	}
	if got, want := w.daemons[hostA].Destroyed(), []libvirt.DomainDestroyFlagsValues{libvirt.DomainDestroyDefault}; !slices.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
	w.nothing(t, "a stuck one")

	// As long as it cannot be ended, nothing of it is removed.
	w = newT(t)
	p = w.provider()
	_, ref = w.made(p)
	w.wires[hostA].Add(libvirttest.On("DomainDestroyFlags"), fails(libvirt.ErrSystemError))
	expect(t, "one that cannot be killed", p.Delete(t.Context(), ref), provider.ErrTransient, "", "DomainDestroyFlags")
	if len(w.instances()) != 2 || w.only().State != libvirt.DomainRunning {
		t.Errorf("left %+v, %q", w.only(), w.instances())
	}
	// No answer is no reason to kill.
	w = newT(t)
	p = w.provider()
	_, ref = w.made(p)
	w.wires[hostA].Once(libvirttest.On("DomainDestroyFlags"), func(string, func() error) error { return errLost })
	calls = w.since(func() {
		expect(t, "a lost answer", p.Delete(t.Context(), ref), provider.ErrTransient, "")
	})
	if got := changes(calls); len(got) != 1 {
		t.Errorf("changes %v", got)
	}
}

// A domain that went off by itself just before is what was wanted.
func TestADomainThatEndsMeanwhile(t *testing.T) {
	for _, hard := range []bool{false, true} {
		w := newT(t)
		p := w.provider()
		_, ref := w.made(p)
		d, name := w.daemon(ref.ID)
		if hard { // it ends between the friendly call and the other one
			w.wires[hostA].Once(libvirttest.On("DomainDestroyFlags"), fails(libvirt.ErrSystemError))
		}
		n := 0
		w.wires[hostA].Add(libvirttest.On("DomainDestroyFlags"), func(_ string, do func() error) error {
			if n++; n == 1 {
				d.Set(name, libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown))
			}
			return do() // refuses: it is not running
		})
		must(w.t, p.Delete(t.Context(), ref))
		w.nothing(t, "one that ends meanwhile")
	}
}

// Somebody may start the domain while it is being removed, and may do so again and again.
func TestADomainThatIsStartedMeanwhile(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	for _, call := range []string{"StorageVolDelete", "DomainUndefineFlags"} {
		w.wires[hostA].Once(libvirttest.On(call), func(_ string, do func() error) error {
			d.Set(name, libvirt.DomainRunning, 1)
			return do()
		})
	}
	must(w.t, p.Delete(t.Context(), ref))
	w.nothing(t, "one that was started")

	w = newT(t)
	p = w.provider()
	_, ref = w.made(p)
	d, name = w.daemon(ref.ID)
	var rounds atomic.Int32
	w.wires[hostA].Add(libvirttest.On("DomainUndefineFlags"), func(string, func() error) error {
		rounds.Add(1)
		d.Set(name, libvirt.DomainRunning, 1) // it has become one that exists as long as it runs
		return nil
	})
	expect(t, "one that is always started", p.Delete(t.Context(), ref), provider.ErrTransient, "", "keeps starting")
	if rounds.Load() != 3 {
		t.Errorf("%d rounds", rounds.Load())
	}
}

// What vanishes between two calls was to go.
func TestThingsThatVanish(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	steps := w.since(func() { must(w.t, p.Delete(t.Context(), ref)) })
	for n := range steps {
		for _, what := range []string{"domain", "disk.qcow2", "seed.iso", "all"} {
			w := newT(t)
			p := w.provider()
			_, ref := w.made(p)
			d, name := w.daemon(ref.ID)
			i := 0
			disk, seed := w.volume(ref, "disk.qcow2"), w.volume(ref, "seed.iso")
			w.wires[hostA].Add(libvirttest.All, func(_ string, do func() error) error {
				if i++; i == n+1 {
					if what == "domain" || what == "all" {
						d.Undefine(name)
					}
					for _, v := range []string{disk, seed} {
						if what == "all" || strings.HasSuffix(v, what) {
							d.RemoveVolume(v)
						}
					}
				}
				return do()
			})
			when := fmt.Sprintf("%s before call %d (%s)", what, n+1, steps[n])
			if err := p.Delete(t.Context(), ref); err != nil {
				t.Errorf("%s: %v", when, err)
			}
			w.nothing(t, when)
		}
	}
}

// Only the attempt that the Ref names goes, and only by the identity that it had.
func TestARemovalOfAnother(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	for reason, other := range map[string]provider.Ref{
		"a later attempt":      {ID: ref.ID, UID: ref.UID, Attempt: 2},
		"attempt 0":            {ID: ref.ID, UID: ref.UID},
		"attempt -1":           {ID: ref.ID, UID: ref.UID, Attempt: -1},
		"another identity":     {ID: ref.ID, UID: ref.UID, Attempt: 1, Identity: kvm.DomainUUID(owner, ref.UID, 2)},
		"no identity of ours":  {ID: ref.ID, UID: ref.UID, Attempt: 1, Identity: "1234"},
		"it on the other host": {ID: "hosts/" + hostB + "/domains/" + req.Name, UID: ref.UID, Attempt: 1},
	} {
		calls := w.since(func() {
			if err := p.Delete(t.Context(), other); err != nil {
				t.Errorf("%s: %v", reason, err)
			}
		})
		// What can be nobody's is not even looked for.
		if len(calls) > 0 && (other.Attempt < 1 || other.Identity != "") {
			t.Errorf("%s: calls %v", reason, calls)
		}
		w.expect(t, reason, p, ref, "Running")
	}
	expect(t, "another UID's", p.Delete(t.Context(), provider.Ref{ID: ref.ID, UID: "x", Attempt: 1}), provider.ErrConflict, "", ref.UID)
	expect(t, "an ID of somewhere else", p.Delete(t.Context(), provider.Ref{ID: "hosts/hv-c/domains/" + req.Name, UID: ref.UID, Attempt: 1}), provider.ErrPermanent, provider.ReasonScopeMismatch)
	w.whole(t, "after all", req, ref)
	ref.Identity = kvm.DomainUUID(owner, ref.UID, 1)
	must(w.t, p.Delete(t.Context(), ref))
	w.nothing(t, "with its identity")
}

// Between the look at a domain and its removal another attempt may have come under the name. Calls name the domain by UUID.
func TestALaterAttemptComesMeanwhile(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	later := w.ref(req, 2)
	at, release := w.wires[hostA].Hold(libvirttest.On("DomainDestroyFlags"))
	done := make(chan error, 1)
	go func() { done <- p.Delete(t.Context(), ref) }()
	<-at
	other := w.provider()
	must(w.t, other.Delete(t.Context(), ref))
	must(w.t, other.Create(t.Context(), req, later))
	release()
	must(w.t, <-done)
	w.wires[hostA] = &libvirttest.Wire{} // whose calls whole looks at
	w.whole(t, "the later attempt", req, later)
}
