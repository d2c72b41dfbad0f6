package gcp_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// What a hand has done to the rule is undone within ten minutes, whatever it was.
func TestTheRuleIsSetRight(t *testing.T) {
	for name, change := range map[string]func(*compute.Firewall){
		"everybody":        func(f *compute.Firewall) { f.SourceRanges = []string{"0.0.0.0/0"} },
		"a network less":   func(f *compute.Firewall) { f.SourceRanges = f.SourceRanges[:1] },
		"disabled":         func(f *compute.Firewall) { f.Disabled = true },
		"a port more":      func(f *compute.Firewall) { f.Allowed[0].Ports = append(f.Allowed[0].Ports, "22") },
		"a port less":      func(f *compute.Firewall) { f.Allowed[0].Ports = f.Allowed[0].Ports[:1] },
		"a range of ports": func(f *compute.Firewall) { f.Allowed[0].Ports = append(f.Allowed[0].Ports, "5000-6000") },
		"all ports":        func(f *compute.Firewall) { f.Allowed[0].Ports = nil },
		"another protocol": func(f *compute.Firewall) { f.Allowed[0].IPProtocol = "udp" },
		"a protocol more": func(f *compute.Firewall) {
			f.Allowed = append(f.Allowed, &compute.FirewallAllowed{IPProtocol: "icmp"})
		},
		"another tag":     func(f *compute.Firewall) { f.TargetTags = []string{"another"} },
		"all VMs":         func(f *compute.Firewall) { f.TargetTags = nil },
		"sources by tag":  func(f *compute.Firewall) { f.SourceTags = []string{"another"} },
		"a low priority":  func(f *compute.Firewall) { f.Priority = 65534 },
		"another network": func(f *compute.Firewall) { f.Network = "global/networks/other" },
		"denied": func(f *compute.Firewall) {
			f.Denied, f.Allowed = []*compute.FirewallDenied{{IPProtocol: "tcp", Ports: []string{"3128"}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := newManaged(t, slow())
			w.create(p)
			w.advance(5 * time.Second)
			w.create(p, port(8080))
			w.minutes(p, 5)
			want := *w.rules()[0]
			w.edit(change)
			for range 40 {
				w.advance(15 * time.Second)
				w.list(p)
			}
			got := *w.rules()[0]
			if !slices.Equal(got.SourceRanges, want.SourceRanges) || !slices.Equal(got.TargetTags, want.TargetTags) || len(got.SourceTags)+len(got.Denied) > 0 ||
				got.Disabled || got.Priority != want.Priority || got.Network != want.Network || len(got.Allowed) != 1 || got.Allowed[0].IPProtocol != "tcp" {
				t.Errorf("the rule is %+v, want %+v", got, want)
			}
			w.expectOpen(t, "after ten minutes", "3128,8080")
			// And then there is nothing more to do.
			n := w.emulator.Calls("firewalls.update")
			w.minutes(p, 20)
			if got := w.emulator.Calls("firewalls.update"); got != n {
				t.Errorf("it was set %d times more", got-n)
			}
		})
	}
}

func TestARuleRemovedByHandComesBack(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p)
	w.minutes(p, 3)
	_, err := w.sdk().Firewalls.Delete("project-a", w.rules()[0].Name).Context(t.Context()).Do()
	must(w.t, err)
	req := w.request()
	req.Port = 8080
	// Whoever notices first says so.
	expect(t, "Create", p.Create(t.Context(), req, w.ref(req, 1)), provider.ErrTransient, "", "404")
	must(w.t, p.Create(t.Context(), req, w.ref(req, 1)))
	w.expectOpen(t, "with the next try", "3128,8080")
}

// A hand may have changed the rule of which no port is needed any more.
func TestAnUnfitRuleGoesWithTheLastVM(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	ref, _ := w.create(p)
	w.minutes(p, 3)
	w.edit(func(f *compute.Firewall) { f.SourceRanges = []string{"0.0.0.0/0"} })
	w.emulator.Vanish(ref.ID)
	w.minutes(w.provider(), 5)
	w.expectOpen(t, "after the last VM", "none")
}

// Somebody else's rule of that name is left alone, and nobody gets a VM that cannot be reached.
func TestSomebodyElsesRule(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	ref, req := w.create(p)
	must(w.t, p.Delete(t.Context(), ref))
	for _, description := range []string{"", "ours", strings.Replace(w.rules()[0].Description, owner.Installation, "another", 1)} {
		w.edit(func(f *compute.Firewall) { f.Description, f.SourceRanges = description, []string{"203.0.113.0/24"} })
		p := w.provider()
		expect(t, "Create", p.Create(t.Context(), req, w.ref(req, 2)), provider.ErrPermanent, "", "firewall rule egress-proxies-", "not this operator's")
		w.minutes(p, 12)
		if r := w.rules(); len(r) != 1 || r[0].Description != description || !slices.Equal(r[0].SourceRanges, []string{"203.0.113.0/24"}) {
			t.Errorf("the rules are %+v", r)
		}
		if left := w.left(); len(left) > 0 {
			t.Errorf("left is %q", left)
		}
	}
}

// Of zones that were not read nothing is concluded.
func TestAnIncompleteListTakesNoPortAway(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p, func(r *provider.CreateRequest) { r.Placement.Zone = "europe-west1-b" })
	here, _ := w.create(p, port(8080))
	w.minutes(p, 3)
	w.emulator.SetUnreachable("project-a", "europe-west1-b", gcpemulator.ScopeWarns)
	w.minutes(p, 12)
	must(w.t, p.Delete(t.Context(), here))
	w.minutes(w.provider(), 12)
	w.expectOpen(t, "while a zone is unread", "3128,8080")
	w.edit(func(f *compute.Firewall) { f.Disabled = true })
	w.minutes(p, 10)
	w.expectOpen(t, "although the rule was changed", "3128,8080")
	w.emulator.SetUnreachable("project-a", "europe-west1-b", gcpemulator.Reachable)
	w.minutes(p, 2)
	w.expectOpen(t, "once it is read", "3128")
}

// A rule that is on its way out still shows. What needs it has to wait, and gets it anew.
func TestARuleThatIsBeingRemoved(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{Delays: gcpemulator.Delays{Global: 20 * time.Second}})
	ref, req := w.create(p)
	w.minutes(p, 3)
	must(w.t, p.Delete(t.Context(), ref))
	w.minutes(p, 1)
	w.expectOpen(t, "its removal takes a while", "3128")
	next := w.ref(req, 2)
	for range 3 {
		expect(t, "Create meanwhile", p.Create(t.Context(), req, next), provider.ErrTransient, "")
	}
	w.advance(25 * time.Second)
	must(w.t, p.Create(t.Context(), req, next))
	w.advance(25 * time.Second)
	w.expectOpen(t, "it is there again", "3128")
	w.minutes(p, 12)
	w.expectOpen(t, "and stays", "3128")
	w.expect(t, "the VM", p, next, "Running")
}

// A rule that cannot be had is no reason to go on without it.
func TestErrorsOfTheRuleAreTheCreations(t *testing.T) {
	for _, tc := range []struct {
		call  string
		fault gcpemulator.Fault
		class error
		says  string
	}{
		{"firewalls.get", gcpemulator.Fault{Status: 503}, provider.ErrTransient, "get firewalls"},
		{"firewalls.get", gcpemulator.Fault{Status: 403}, provider.ErrDenied, "get firewalls"},
		{"firewalls.insert", gcpemulator.Fault{Status: 403, Reason: "forbidden", Message: "Required 'compute.firewalls.create' permission"}, provider.ErrPermanent, "compute.firewalls.create"},
		{"firewalls.insert", gcpemulator.Fault{Status: 403, Reason: "quotaExceeded"}, provider.ErrQuotaExceeded, "insert firewalls"},
		{"firewalls.insert", gcpemulator.Fault{Status: 429, RetryAfter: "7"}, provider.ErrTransient, "insert firewalls"},
		{"firewalls.update", gcpemulator.Fault{Status: 500}, provider.ErrTransient, "update firewalls"},
	} {
		w, p := newManaged(t, gcpemulator.Options{})
		if tc.call == "firewalls.update" {
			w.create(p)
		}
		n := len(w.left())
		remove := w.emulator.Inject(gcpemulator.On(tc.call), tc.fault)
		req := w.request()
		req.Port = 8080
		expect(t, tc.call, p.Create(t.Context(), req, w.ref(req, 1)), tc.class, "", tc.says)
		if left := w.left(); len(left) != n {
			t.Errorf("%s: left is %q", tc.call, left)
		}
		remove()
		must(w.t, p.Create(t.Context(), req, w.ref(req, 1)))
	}
}

// Whoever waits for somebody else's look at the rule waits no longer than their own call.
func TestWaitingForTheRuleEndsWithTheCall(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	reached, release := w.emulator.Hold(gcpemulator.On("firewalls.get"))
	defer release()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = p.ListByTag(t.Context())
	}()
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req := w.request()
	expect(t, "Create", p.Create(ctx, req, w.ref(req, 1)), provider.ErrTransient, "")
	release()
	<-done
}
