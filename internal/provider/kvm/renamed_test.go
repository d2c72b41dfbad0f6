package kvm_test

import (
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
)

// under returns a provider to which host A has another name.
func (w *world) under(t *testing.T, name string) *kvm.Provider {
	t.Helper()
	w.daemons[name], w.wires[name] = w.daemons[hostA], &libvirttest.Wire{}
	p, err := w.open("renamed", owner, strings.Replace(w.block(), "{name: "+hostA, "{name: "+name, 1))
	must(w.t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// A host that has another name in the configuration, or another one in another entry, has instances of its own under each. To
// take those of one for the other's would leave their volumes behind, which the name is in.
func TestAHostByAnotherName(t *testing.T) {
	w := newT(t)
	p := w.onlyA()
	req, ref := w.made(p)
	renamed := w.under(t, "exit2")
	if shown, _ := w.list(renamed); len(shown) != 0 {
		t.Errorf("the host by its other name lists %q", shown)
	}
	other := provider.Ref{ID: strings.Replace(ref.ID, hostA, "exit2", 1), UID: ref.UID, Attempt: ref.Attempt, RequestedAt: ref.RequestedAt.Add(-time.Hour)}
	w.expect(t, "by its other name", renamed, other, "conflict")
	expect(t, "Delete by its other name", renamed.Delete(t.Context(), other), provider.ErrConflict, "", hostA)
	req.Placement.Zone = "exit2"
	expect(t, "Create by its other name", renamed.Create(t.Context(), req, provider.Ref{ID: other.ID, UID: ref.UID, Attempt: 1, RequestedAt: w.clock.Now()}), provider.ErrConflict, "")
	if len(w.instances()) != 2 {
		t.Errorf("volumes left: %q", w.instances())
	}
	w.expect(t, "by its first name", p, ref, "Running")
	must(w.t, p.Delete(t.Context(), ref))
	if left := w.instances(); len(left)+len(w.daemons[hostA].Domains()) != 0 {
		t.Errorf("left %q and %v", left, w.daemons[hostA].Domains())
	}
}
