package gcp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// Two entries may share a project. Each shows what there is in its regions, and each keeps a rule of its own.
func TestTwoEntriesOnOneProject(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	european := func(r *provider.CreateRequest) { r.Placement.Zone = "europe-west1-b" }
	w.firewall = managed
	w.extra = "regions: [us-central1]\nnetworkTag: us\n"
	us := w.providerOf("cloud-us", owner)
	w.extra = "regions: [europe-west1]\nnetworkTag: eu\n"
	eu := w.providerOf("cloud-eu", owner)
	a, _ := w.create(us)
	b, _ := w.create(eu, european, port(8080))
	for p, id := range map[provider.Provider]string{us: a.ID, eu: b.ID} {
		if shown, unread := w.list(p); !slices.Equal(shown, []string{"Running " + id}) || len(unread) > 0 {
			t.Errorf("listed is %q, unread %q, want %s", shown, unread, id)
		}
	}
	_, err := eu.Get(t.Context(), a)
	expect(t, "Get of the other's", err, provider.ErrPermanent, provider.ReasonScopeMismatch, "us-central1-a", "europe-west1")
	expect(t, "Delete of the other's", eu.Delete(t.Context(), a), provider.ErrPermanent, provider.ReasonScopeMismatch)
	w.minutes(us, 12)
	w.minutes(eu, 12)
	rules := map[string]string{}
	for _, r := range w.rules() {
		rules[r.TargetTags[0]] = r.Allowed[0].Ports[0]
	}
	if len(rules) != 2 || rules["us"] != "3128" || rules["eu"] != "8080" {
		t.Errorf("the rules are %v", rules)
	}
	must(w.t, us.Delete(t.Context(), a))
	w.minutes(us, 2)
	w.minutes(eu, 2)
	if rules := w.rules(); len(rules) != 1 || rules[0].TargetTags[0] != "eu" {
		t.Errorf("the rules are %+v", rules)
	}
}

// Entries with the same tag keep a rule each, too: one's sources may not be the other's.
func TestTwoEntriesOfOneTag(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.firewall = managed
	one := w.providerOf("one", owner)
	w.firewall = "firewall: {manage: true, sourceRanges: [203.0.113.0/24]}\n"
	two := w.providerOf("two", owner)
	w.create(one)
	w.create(two)
	sources := map[string]bool{}
	for _, r := range w.rules() {
		sources[strings.Join(r.SourceRanges, ",")] = true
	}
	if len(sources) != 2 || !sources["192.0.2.0/24,198.51.100.0/24"] || !sources["203.0.113.0/24"] {
		t.Errorf("the rules are of %v", sources)
	}
}

// Entries that share regions, too, see each other's instances, which are the installation's, and touch nothing by that.
func TestTwoEntriesOfTheSameScope(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	one, two := w.providerOf("one", owner), w.providerOf("two", owner)
	a, _ := w.create(one)
	b, _ := w.create(two)
	for _, p := range []provider.Provider{one, two} {
		if shown, _ := w.list(p); len(shown) != 2 {
			t.Errorf("listed is %q", shown)
		}
		w.expect(t, "a", p, a, "Running")
		w.expect(t, "b", p, b, "Running")
	}
}

// A record older than what stands there was restored: what stands there is shown, and neither replaced nor removed.
func TestARecordThatWasRestored(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	old, req := w.create(p)
	for attempt := int64(2); attempt <= 3; attempt++ {
		must(w.t, p.Delete(t.Context(), w.ref(req, attempt-1)))
		must(w.t, p.Create(t.Context(), req, w.ref(req, attempt)))
	}
	w.advance(past)
	restored := w.ref(req, 1)
	for _, ref := range []provider.Ref{old, restored} {
		if inst := w.get(p, ref); inst.Marks.Attempt != 3 || inst.State != provider.StateRunning || inst.Identity == "" {
			t.Errorf("it is %+v", inst)
		}
		must(w.t, p.Delete(t.Context(), ref))
	}
	for attempt := int64(1); attempt <= 2; attempt++ {
		expect(t, "Create", p.Create(t.Context(), req, w.ref(req, attempt)), provider.ErrTransient, provider.ReasonAttemptMismatch, "attempt 3 stands there")
	}
	w.expect(t, "in the end", p, w.ref(req, 3), "Running")
	if n := len(w.operations("insert")); n != 3 {
		t.Errorf("%d creations", n)
	}
}

// The next attempt under an old token, of a record that was restored, does not count as made by what that once stood for.
func TestATokenThatWasUsedByALostRecord(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	first, req := w.create(p)
	must(w.t, p.Delete(t.Context(), first))
	lost := w.ref(req, 2)
	must(w.t, p.Create(t.Context(), req, lost))
	must(w.t, p.Delete(t.Context(), lost))
	// The record says attempt 1 again; it is absent, so the next is 2.
	w.expect(t, "attempt 1", p, first, "not_found")
	again := w.ref(req, 2)
	must(w.t, p.Create(t.Context(), req, again)) // the API answers with what it did before
	w.expect(t, "attempt 2", p, again, "not_found")
	next := w.ref(req, 3)
	must(w.t, p.Create(t.Context(), req, next))
	w.expect(t, "attempt 3", p, next, "Running")
}

// An ID that another's VM holds is neither shown nor touched, with proof or without.
func TestForeignVMs(t *testing.T) {
	for name, labels := range map[string]func(uid string) map[string]string{
		"bare":                 func(string) map[string]string { return nil },
		"another installation": func(uid string) map[string]string { l := marked(uid, 1); l[provider.LabelInstallation] = "x"; return l },
		"another cluster":      func(uid string) map[string]string { l := marked(uid, 1); l[provider.LabelCluster] = "x"; return l },
		"another Proxy":        func(string) map[string]string { return marked("x", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newT(t, gcpemulator.Options{})
			p := w.provider()
			req := w.request()
			ref := w.ref(req, 1)
			w.emulator.Place(ref.ID, labels(req.UID))
			w.expect(t, "within the window", p, ref, "conflict "+provider.ReasonAbsenceUnproven)
			expect(t, "Create", p.Create(t.Context(), req, ref), provider.ErrConflict, "")
			w.advance(past)
			w.expect(t, "after it", p, ref, "conflict")
			expect(t, "Delete", p.Delete(t.Context(), ref), provider.ErrConflict, "")
			if n := w.emulator.Calls("instances.insert") + w.emulator.Calls("instances.delete") + w.emulator.Calls("disks.delete"); n != 0 || len(w.left()) != 2 {
				t.Errorf("%d changes, left is %q", n, w.left())
			}
		})
	}
}
