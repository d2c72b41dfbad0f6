package kvm_test

import (
	"context"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// The name may be taken just before the domain is defined.
func TestTheNameIsTakenMeanwhile(t *testing.T) {
	for _, tc := range []struct {
		reason string
		take   func(w *world, req provider.CreateRequest, ref provider.Ref) error
		class  error // nil: it is completed
		mark   string
	}{
		{"by a stranger", func(w *world, req provider.CreateRequest, _ provider.Ref) error {
			w.daemons[hostA].Place(req.Name, "")
			return nil
		}, provider.ErrConflict, ""},
		{"by another attempt", func(w *world, req provider.CreateRequest, ref provider.Ref) error {
			ref.Attempt++
			return w.provider().Create(context.Background(), req, ref)
		}, provider.ErrTransient, provider.ReasonAttemptMismatch},
		{"by another process with the same attempt", func(w *world, req provider.CreateRequest, ref provider.Ref) error {
			return w.provider().Create(context.Background(), req, ref)
		}, nil, ""},
	} {
		w := newT(t)
		p := w.provider()
		req := w.request()
		ref := w.ref(req, 1)
		var mine []string
		w.wires[hostA].Once(libvirttest.On("DomainDefineXMLFlags"), func(_ string, do func() error) error {
			if err := tc.take(w, req, ref); err != nil {
				return err
			}
			mine = w.wires[hostA].Seen()
			return do()
		})
		err := p.Create(t.Context(), req, ref)
		if tc.class == nil {
			must(w.t, err)
			w.whole(t, tc.reason, req, ref)
			continue
		}
		expect(t, tc.reason, err, tc.class, tc.mark)
		if got := changes(w.wires[hostA].Seen()[len(mine):]); len(got) > 0 {
			t.Errorf("%s: changes %v", tc.reason, got)
		}
	}
	// Of a definition that is refused for another reason that reason is told.
	w := newT(t)
	req := w.request()
	w.wires[hostA].Once(libvirttest.On("DomainDefineXMLFlags"), fails(libvirt.ErrConfigUnsupported))
	expect(t, "a definition", w.provider().Create(t.Context(), req, w.ref(req, 1)), provider.ErrPermanent, "", "DomainDefineXMLFlags")
	if left := w.instances(); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// Another attempt, or a stranger, that stands there from the beginning is left alone.
func TestThePlaceIsTaken(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	for _, attempt := range []int64{2, 7} {
		calls := w.since(func() {
			expect(t, "another attempt", p.Create(t.Context(), req, w.ref(req, attempt)), provider.ErrTransient, provider.ReasonAttemptMismatch, "attempt 1 stands there")
		})
		if got := changes(calls); len(got) > 0 {
			t.Errorf("changes %v", got)
		}
	}
	w.whole(t, "the first", req, ref)
	// What was not planned is not made.
	other := w.ref(req, 1)
	other.ID = "hosts/" + hostB + "/domains/" + req.Name
	expect(t, "another place", p.Create(t.Context(), req, other), provider.ErrPermanent, "", "the plan leads to "+ref.ID)
	other = w.ref(req, 1)
	other.UID = "x"
	expect(t, "another UID", p.Create(t.Context(), req, other), provider.ErrPermanent, "", "the plan leads to "+ref.ID)
}

// What a start that is refused means depends on whether the domain runs.
func TestAStartThatIsRefused(t *testing.T) {
	w := newT(t)
	req := w.request()
	ref := w.ref(req, 1)
	w.wires[hostA].Once(libvirttest.On("DomainCreateWithFlags"), fails(libvirt.ErrOperationInvalid))
	expect(t, "one that does not run", w.provider().Create(t.Context(), req, ref), provider.ErrTransient, "", "DomainCreateWithFlags")
	w.wires[hostA].Once(libvirttest.On("DomainCreateWithFlags"), func(call string, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		return fails(libvirt.ErrOperationInvalid)(call, nil)
	})
	must(w.t, w.provider().Create(t.Context(), req, ref))
	w.whole(t, "one that runs", req, ref)

	w = newT(t)
	req = w.request()
	ref = w.ref(req, 1)
	w.wires[hostA].Once(libvirttest.On("DomainCreateWithFlags"), func(_ string, do func() error) error {
		disk, _ := kvm.VolumesOf(owner, hostA, req.UID, 1)
		w.daemons[hostA].RemoveVolume(disk)
		return do()
	})
	p := w.provider()
	expect(t, "one that cannot run", p.Create(t.Context(), req, ref), provider.ErrTransient, "", "DomainCreateWithFlags")
	w.expect(t, "after it", p, ref, "Failed transient left")
	must(w.t, p.Delete(t.Context(), ref))
	w.expect(t, "after its removal", p, w.old(ref), "not_found")
}

// An old daemon does not know how to limit an agent.
func TestADaemonWithoutALimitForAgents(t *testing.T) {
	w := newT(t)
	w.wires[hostA].Add(libvirttest.On("DomainAgentSetResponseTimeout"), fails(libvirt.ErrNoSupport))
	req := w.request()
	ref := w.ref(req, 1)
	must(w.t, w.provider().Create(t.Context(), req, ref))
	w.whole(t, "without a limit", req, ref)
	w = newT(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.wires[hostA].Add(libvirttest.On("DomainAgentSetResponseTimeout"), func(string, func() error) error { cancel(); return errLost })
	expect(t, "one who gives up", w.provider().Create(ctx, req, w.ref(req, 1)), provider.ErrTransient, "")
}
