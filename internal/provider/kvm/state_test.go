package kvm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
)

// Every state and reason that libvirt has, and some that it does not have yet.
func TestStates(t *testing.T) {
	const (
		running, blocked = libvirt.DomainRunning, libvirt.DomainBlocked
		paused, off      = libvirt.DomainPaused, libvirt.DomainShutoff
	)
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	for _, tc := range []struct {
		state  libvirt.DomainState
		reason int32
		want   string
		says   string
	}{
		{libvirt.DomainNostate, 0, "Unknown", "no state"},
		{running, int32(libvirt.DomainRunningUnknown), "Running", ""},
		{running, int32(libvirt.DomainRunningBooted), "Running", ""},
		{running, int32(libvirt.DomainRunningCrashed), "Running", ""},
		{running, 99, "Running", ""},
		{blocked, 0, "Running", ""},
		{paused, int32(libvirt.DomainPausedUnknown), "Unknown", "reason 0"},
		{paused, int32(libvirt.DomainPausedUser), "Unknown", "somebody has paused"},
		{paused, int32(libvirt.DomainPausedMigration), "Unknown", "reason 2"},
		{paused, int32(libvirt.DomainPausedSave), "Unknown", "reason 3"},
		{paused, int32(libvirt.DomainPausedDump), "Unknown", "reason 4"},
		{paused, int32(libvirt.DomainPausedIoerror), "Stopped", "I/O error"},
		{paused, int32(libvirt.DomainPausedWatchdog), "Stopped", "watchdog"},
		{paused, int32(libvirt.DomainPausedFromSnapshot), "Unknown", "reason 7"},
		{paused, int32(libvirt.DomainPausedShuttingDown), "Unknown", "reason 8"},
		{paused, int32(libvirt.DomainPausedSnapshot), "Unknown", "reason 9"},
		{paused, int32(libvirt.DomainPausedCrashed), "Stopped", "guest has crashed"},
		{paused, int32(libvirt.DomainPausedStartingUp), "Provisioning", "starting"},
		{paused, int32(libvirt.DomainPausedPostcopy), "Unknown", "reason 12"},
		{paused, int32(libvirt.DomainPausedPostcopyFailed), "Unknown", "reason 13"},
		{paused, int32(libvirt.DomainPausedAPIError), "Unknown", "reason 14"},
		{paused, 99, "Unknown", "reason 99"},
		{libvirt.DomainShutdown, 0, "Unknown", "shutting down"},
		{libvirt.DomainShutdown, 1, "Unknown", "shutting down"},
		{off, int32(libvirt.DomainShutoffUnknown), "Provisioning", "nothing is to be seen"}, // the window is open
		{off, int32(libvirt.DomainShutoffShutdown), "Stopped", "guest has shut down"},
		{off, int32(libvirt.DomainShutoffDestroyed), "Stopped", "switched off"},
		{off, int32(libvirt.DomainShutoffCrashed), "Stopped", "crashed"},
		{off, int32(libvirt.DomainShutoffMigrated), "Stopped", "reason 4"},
		{off, int32(libvirt.DomainShutoffSaved), "Stopped", "saved"},
		{off, int32(libvirt.DomainShutoffFailed), "Failed transient left", "did not start"},
		{off, int32(libvirt.DomainShutoffFromSnapshot), "Stopped", "reason 7"},
		{off, int32(libvirt.DomainShutoffDaemon), "Stopped", "reason 8"},
		{off, 99, "Stopped", "reason 99"},
		{libvirt.DomainCrashed, 0, "Stopped", "crashed"},
		{libvirt.DomainCrashed, 1, "Stopped", "crashed"},
		{libvirt.DomainPmsuspended, 0, "Unknown", "suspended"},
		{libvirt.DomainState(42), 0, "Unknown", "state 42"},
		{libvirt.DomainState(-1), 0, "Unknown", "state -1"},
	} {
		d.Set(name, tc.state, tc.reason)
		what := fmt.Sprintf("state %d, reason %d", tc.state, tc.reason)
		w.expect(t, what, p, ref, tc.want)
		inst, err := p.Get(t.Context(), ref)
		must(w.t, err)
		if !strings.Contains(inst.Message, tc.says) || (inst.Message == "") != (tc.says == "") {
			t.Errorf("%s: message %q, want %q in it", what, inst.Message, tc.says)
		}
		if running := inst.State == provider.StateRunning; running != (inst.IP != "") || running != (inst.Port == 3128) {
			t.Errorf("%s: %s:%d while %s", what, inst.IP, inst.Port, inst.State)
		}
		// The list says the same, but for what may not have come yet.
		if shown, _ := w.list(p); !strings.HasPrefix(tc.want, "Provisioning") && shown[0] != string(inst.State)+" "+ref.ID {
			t.Errorf("%s: listed as %q", what, shown)
		}
	}
}

// A domain that has never been on may be one that is just being made; once nothing is on its way any more it is one that is off.
func TestAHalfMadeDomain(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	w.daemons[hostA].Restart()
	w.expect(t, "within the window", p, ref, "Provisioning")
	if inst, err := p.Get(t.Context(), ref); err != nil || inst.Identity != "" || inst.Marks != (provider.Marks{}) {
		t.Errorf("%+v, %v: it says more than there is to be seen", inst, err)
	}
	w.expect(t, "an older attempt's, within the window", p, w.ref(req, 2), "Stopped (attempt 1)")
	w.expect(t, "after the window", p, w.old(ref), "Stopped")
	if inst, err := p.Get(t.Context(), w.old(ref)); err != nil || inst.Message != "the domain is off, as after a restart of its host" || inst.Marks != owner.MarksFor(req, ref) {
		t.Errorf("%+v, %v", inst, err)
	}
	if shown, _ := w.list(p); len(shown) != 1 || shown[0] != "Stopped "+ref.ID {
		t.Errorf("list %q", shown)
	}
	// The very moment.
	ends := ref
	ends.RequestedAt = w.clock.Now().Add(-(w.window.CallTimeout + kvm.Visibility + w.window.Skew))
	w.expect(t, "at the end of the window", p, ends, "Provisioning")
	ends.RequestedAt = ends.RequestedAt.Add(-time.Nanosecond)
	w.expect(t, "after it", p, ends, "Stopped")
}

// A domain is found under another name by its UUID, shown under the ID that is its own, and removed.
func TestARenamedDomain(t *testing.T) {
	for _, taken := range []bool{false, true} {
		w := newT(t)
		p := w.provider()
		req, ref := w.made(p)
		d, name := w.daemon(ref.ID)
		d.Rename(name, "web")
		if taken {
			d.Place(name, "")
		}
		w.expect(t, "a renamed one", p, ref, "Running")
		if inst, err := p.Get(t.Context(), ref); err != nil || inst.ID != ref.ID || inst.Identity != kvm.DomainUUID(owner, req.UID, 1) {
			t.Errorf("%+v, %v", inst, err)
		}
		if shown, _ := w.list(p); len(shown) != 1 || shown[0] != "Running "+ref.ID {
			t.Errorf("list %q", shown)
		}
		must(w.t, p.Create(t.Context(), req, ref))
		if err := p.Delete(t.Context(), ref); err != nil {
			t.Errorf("name taken %t: %v", taken, err)
		}
		if all := d.Domains(); taken && (len(all) != 1 || all[0].Name != name) || !taken && len(all) != 0 || len(w.instances()) != 0 {
			t.Errorf("name taken %t: left %v and %q", taken, all, w.instances())
		}
		want := "not_found"
		if taken {
			want = "conflict"
		}
		w.expect(t, "after that", p, w.old(ref), want)
	}
}

// What has our marks but another UUID was copied by somebody: it is neither ours nor shown, and stays.
func TestACopyOfADomain(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	marks := w.only().Metadata
	d.Place("copy", marks)
	if shown, _ := w.list(p); len(shown) != 1 || shown[0] != "Running "+ref.ID {
		t.Errorf("list %q", shown)
	}
	must(w.t, p.Delete(t.Context(), ref))
	if all := d.Domains(); len(all) != 1 || all[0].Name != "copy" {
		t.Errorf("left %v", all)
	}
	d.Place(name, marks)
	_, err := p.Get(t.Context(), ref)
	expect(t, "Get of a copy under our name", err, provider.ErrConflict, provider.ReasonAbsenceUnproven, "copy")
	_, err = p.Get(t.Context(), w.old(ref))
	expect(t, "Get of it after the window", err, provider.ErrConflict, "", "copy")
	expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "", "copy")
	expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrConflict, "", "copy")
	if shown, _ := w.list(p); len(shown) != 0 {
		t.Errorf("list %q", shown)
	}
	if all := d.Domains(); len(all) != 2 || len(w.instances()) != 0 {
		t.Errorf("left %v and %q", all, w.instances())
	}
}

// A domain whose marks are missing or not all there is a stranger, even with a UUID of ours. The volumes that it runs on are not
// taken from under it.
func TestStrangeMetadata(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	good := w.only().Metadata
	other := func(attr, value string) string {
		head, rest, ok := strings.Cut(good, attr+`="`)
		if !ok {
			t.Fatalf("no %s in %s", attr, good)
		}
		_, tail, _ := strings.Cut(rest, `"`)
		return head + attr + `="` + value + `"` + tail
	}
	for reason, text := range map[string]string{
		"none": "", "no XML": "<", "another element": "<instance/>", "no managed mark": other("managed", "false"),
		"another installation": other("installation", "x"), "another cluster": other("cluster", "x"), "another UID": other("uid", "x"),
		"another name of the host": other("host", "x"), "no name of the host": other("host", ""),
		"no UID": other("uid", ""), "attempt 0": other("attempt", "0"), "attempt x": other("attempt", "x"), "attempt 2, whose UUID it has not": other("attempt", "2"),
		"a huge attempt": other("attempt", strings.Repeat("9", 30)), "entities": `<!DOCTYPE x [<!ENTITY a "b">]>` + other("uid", "&a;"),
	} {
		d.SetMetadata(name, text)
		w.expect(t, reason, p, w.old(ref), "conflict")
		w.expect(t, reason, p, ref, "conflict AbsenceUnproven")
		expect(t, reason+": Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "")
		expect(t, reason+": Delete", p.Delete(t.Context(), ref), provider.ErrConflict, "")
		if shown, _ := w.list(p); len(shown) != 0 {
			t.Errorf("%s: list %q", reason, shown)
		}
	}
	if got := w.only(); got.State != libvirt.DomainRunning || len(w.instances()) != 2 {
		t.Errorf("left %+v, %q", got, w.instances())
	}
	// What does not decide whose it is may be wrong.
	for reason, text := range map[string]string{"no port": other("port", ""), "port 0": other("port", "0"), "port 70000": other("port", "70000"), "port -1": other("port", "-1")} {
		d.SetMetadata(name, text)
		w.expect(t, reason, p, ref, "Provisioning")
	}
	for reason, text := range map[string]string{"no time": other("created", ""), "garbled time": other("created", "yesterday")} {
		d.SetMetadata(name, text)
		inst, err := p.Get(t.Context(), ref)
		if err != nil || inst.State != provider.StateRunning || !inst.CreatedAt.IsZero() {
			t.Errorf("%s: %+v, %v", reason, inst, err)
		}
	}
}

// A stranger beside what is left of ours: the volumes are ours still, and go; the stranger stays.
func TestAStrangerBesideOurVolumes(t *testing.T) {
	w := newT(t)
	p := w.provider()
	_, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	d.Undefine(name)
	d.Place(name, "")
	w.expect(t, "within the window", p, ref, "conflict AbsenceUnproven")
	w.expect(t, "after it", p, w.old(ref), "Terminated")
	expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrConflict, "", "without marks")
	if left := w.instances(); len(left) != 0 {
		t.Errorf("left %q", left)
	}
	w.expect(t, "after that", p, w.old(ref), "conflict")
	if w.only().State != libvirt.DomainRunning {
		t.Error("the stranger was touched")
	}
}

// Volumes alone are still the instance: for Get, for the list, and for another process that has to remove them.
func TestVolumesAlone(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	d, name := w.daemon(ref.ID)
	d.Undefine(name)
	d.RemoveVolume(w.volume(ref, "disk.qcow2"))
	w.expect(t, "the seed alone, within the window", p, ref, "Provisioning")
	w.expect(t, "the seed alone", p, w.old(ref), "Terminated")
	inst, err := p.Get(t.Context(), w.old(ref))
	must(w.t, err)
	want := owner.MarksFor(req, ref)
	want.Namespace, want.Name, want.Spec = "", "", ""
	if inst.Marks != want || inst.Identity != kvm.DomainUUID(owner, req.UID, 1) || inst.Message != "the domain is gone, volumes of it are left" || inst.ID != ref.ID {
		t.Errorf("%+v, want the marks %+v", inst, want)
	}
	l, err := p.ListByTag(t.Context())
	must(w.t, err)
	if len(l.Instances) != 1 || l.Instances[0] != *inst {
		t.Errorf("listed %+v, want %+v", l.Instances, inst)
	}
	// An older attempt's are seen whatever the window.
	w.expect(t, "for the next attempt", p, w.ref(req, 2), "Terminated (attempt 1)")
	other := w.providerOf("other", provider.Owner{Installation: "other", Cluster: owner.Cluster})
	w.expect(t, "for another installation", other, w.old(ref), "not_found")
	if shown, _ := w.list(other); len(shown) != 0 {
		t.Errorf("another installation lists %q", shown)
	}
	must(w.t, other.Delete(t.Context(), ref))
	w.expect(t, "after another installation's Delete", p, w.old(ref), "Terminated")
	must(w.t, w.provider().Delete(t.Context(), ref))
	w.expect(t, "after another process's Delete", p, w.old(ref), "not_found")
	if all := d.Volumes(); len(all) != len(base.volumes) {
		t.Errorf("left %q, want the base image alone", all)
	}
}

// Volumes of other attempts, Proxies and people stay when one attempt is removed.
func TestVolumesOfOthers(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	d, _ := w.daemon(ref.ID)
	disk2, seed2 := kvm.VolumesOf(owner, hostA, req.UID, 2)
	foreign, _ := kvm.VolumesOf(provider.Owner{Installation: "other", Cluster: "x"}, hostA, req.UID, 1)
	for _, v := range []string{disk2, seed2, foreign, "web.qcow2", req.Name + ".disk.qcow2", w.volume(ref, "disk.qcow2") + ".bak"} {
		d.AddVolume(v, 1)
	}
	must(w.t, p.Delete(t.Context(), ref))
	if all := d.Volumes(); len(all) != len(base.volumes)+6 {
		t.Errorf("left %q", all)
	}
	w.expect(t, "the other attempt", p, w.old(ref), "Terminated (attempt 2)")
	if shown, _ := w.list(p); len(shown) != 1 {
		t.Errorf("list %q", shown)
	}
	must(w.t, p.Delete(t.Context(), w.ref(req, 2)))
	w.expect(t, "after all", p, w.old(ref), "not_found")
}

// A guest that has no address yet is one that boots. One that has had the time for it has lost it.
func TestAGuestWithoutAnAddress(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	must(w.t, p.Create(t.Context(), req, ref))
	w.expect(t, "at first", p, ref, "Provisioning")
	if inst, err := p.Get(t.Context(), ref); err != nil || inst.Message != "the guest has no address yet" || !inst.CreatedAt.Equal(w.clock.Now()) || inst.Identity == "" {
		t.Errorf("%+v, %v", inst, err)
	}
	w.clock.Step(kvm.BootLimit - time.Second)
	w.expect(t, "after half an hour less a second", p, ref, "Provisioning")
	w.clock.Step(time.Second)
	w.expect(t, "after half an hour", p, ref, "Unknown")
	if inst, err := p.Get(t.Context(), ref); err != nil || !strings.Contains(inst.Message, "no address of it is known any more") {
		t.Errorf("%+v, %v", inst, err)
	}
	w.daemons[hostA].Boot()
	w.expect(t, "with an address", p, ref, "Running")
	// When it began nobody knows: it counts as young.
	d, name := w.daemon(ref.ID)
	d.Forget()
	d.SetMetadata(name, strings.Replace(w.only().Metadata, `created="`, `created="x`, 1))
	w.expect(t, "without a time", p, ref, "Provisioning")
}

// After a host has rebooted its domains are off, and are replaced.
func TestAHostThatHasRebooted(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req, ref := w.made(p)
	w.advance(time.Hour)
	w.daemons[hostA].Restart()
	w.expect(t, "after the reboot", p, ref, "Stopped")
	must(w.t, p.Delete(t.Context(), ref))
	again := w.ref(req, 2)
	must(w.t, p.Create(t.Context(), req, again))
	w.daemons[hostA].Boot()
	w.expect(t, "the next attempt", p, again, "Running")
}
