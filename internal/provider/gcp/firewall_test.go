package gcp_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestTheRuleIsThereBeforeTheVM(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	seen := false
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{OnCall: func() { seen = len(w.rules()) == 1 }})
	w.create(p)
	if !seen {
		t.Error("it was not there when the VM was asked for")
	}
	rule := w.rules()[0]
	if !slices.Equal(rule.SourceRanges, []string{"192.0.2.0/24", "198.51.100.0/24"}) || !slices.Equal(rule.TargetTags, []string{"egress-proxy"}) ||
		!strings.HasSuffix(rule.Network, "/global/networks/default") || rule.Direction != "INGRESS" || rule.Disabled ||
		len(rule.Allowed) != 1 || rule.Allowed[0].IPProtocol != "tcp" || !slices.Equal(rule.Allowed[0].Ports, []string{"3128"}) {
		t.Errorf("the rule is %+v", rule)
	}
	for _, mark := range []string{owner.Installation, owner.Cluster, entry} {
		if !strings.Contains(rule.Description, mark) {
			t.Errorf("the description is %q, without %q", rule.Description, mark)
		}
	}
}

// The rule opens the ports in use: one more with each that is asked for, less once the last VM with it is gone.
func TestTheRuleFollowsThePortsInUse(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	first, _ := w.create(p)
	w.create(p)
	w.expectOpen(t, "one port", "3128")
	other, _ := w.create(p, port(8080))
	w.expectOpen(t, "two ports", "3128,8080")
	w.minutes(p, 5)
	w.expectOpen(t, "later", "3128,8080")
	must(w.t, p.Delete(t.Context(), first))
	w.minutes(p, 1)
	w.expectOpen(t, "with another VM on the port", "3128,8080")
	must(w.t, p.Delete(t.Context(), other))
	w.minutes(p, 1)
	w.expectOpen(t, "without a VM on the other", "3128")
	shown, _ := w.list(p)
	for _, s := range shown {
		_, id, _ := strings.Cut(s, " ")
		w.emulator.Vanish(id)
	}
	w.minutes(p, 1)
	w.expectOpen(t, "without a VM", "none")
	w.create(p)
	w.expectOpen(t, "and again", "3128")
}

// A process that has just started knows neither the rule nor what the last one did.
func TestTheRuleIsAdoptedAfterARestart(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{ListLag: 50 * time.Second})
	w.create(p)
	w.minutes(p, 3)
	w.create(p, port(8080)) // not listed yet
	next := w.provider()
	w.list(next)
	w.expectOpen(t, "after the first list", "3128,8080")
	w.create(next, port(9090))
	w.minutes(next, 5)
	w.expectOpen(t, "later", "3128,8080,9090")
	n := w.emulator.Calls("firewalls.update") + w.emulator.Calls("firewalls.insert")
	another := w.provider()
	w.minutes(another, 5)
	w.create(another)
	if got := w.emulator.Calls("firewalls.update") + w.emulator.Calls("firewalls.insert"); got != n {
		t.Errorf("a rule that was right has been set %d times", got-n)
	}
}

// Those who change the entry, such as its networks, find them changed at the rule.
func TestTheRuleFollowsTheEntry(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p)
	w.create(p, port(8080))
	w.firewall = "firewall: {manage: true, sourceRanges: [203.0.113.0/24]}\n"
	next := w.provider()
	w.create(next, port(9090)) // before the first list
	if r := w.rules()[0]; !slices.Equal(r.SourceRanges, []string{"203.0.113.0/24"}) {
		t.Errorf("the sources are %q", r.SourceRanges)
	}
	w.expectOpen(t, "nobody is shut out meanwhile", "3128,8080,9090")
	w.minutes(next, 4)
	w.expectOpen(t, "later", "3128,8080,9090")
}

// Creations at the same time, of many ports, by one process: none takes another's port away.
func TestCreationsSideBySide(t *testing.T) {
	for name, opts := range map[string]gcpemulator.Options{"at once": {}, "slow": slow()} {
		t.Run(name, func(t *testing.T) {
			w, p := newManaged(t, opts)
			var all sync.WaitGroup
			var want []string
			for i := range 8 {
				req := w.request()
				req.Port = int32(8000 + i)
				ref := w.ref(req, 1)
				want = append(want, fmt.Sprint(req.Port))
				all.Go(func() {
					err := p.Create(t.Context(), req, ref)
					for n := 0; err != nil && n < 100; n++ { // the rule's own creation takes a moment
						if provider.Class(err) != provider.ErrTransient {
							t.Errorf("Create: %v", err)
							return
						}
						w.advance(100 * time.Millisecond)
						again := ref
						again.RequestedAt = w.clock.Now()
						err = p.Create(t.Context(), req, again)
					}
					if err != nil {
						t.Errorf("Create: %v", err)
					}
				})
			}
			all.Wait()
			w.advance(5 * time.Second)
			w.expectOpen(t, "at the end", strings.Join(want, ","))
			w.minutes(p, 5)
			w.expectOpen(t, "later", strings.Join(want, ","))
		})
	}
}

// Of a rule, Compute Engine lets nobody change the network, nor whether it allows or denies: it is made anew.
func TestARuleThatCannotBeMendedIsMadeAnew(t *testing.T) {
	for name, change := range map[string]func(*compute.Firewall){
		"another network": func(f *compute.Firewall) { f.Network = "global/networks/other" },
		"denied": func(f *compute.Firewall) {
			f.Denied, f.Allowed = []*compute.FirewallDenied{{IPProtocol: "tcp", Ports: []string{"3128"}}}, nil
		},
	} {
		w, p := newManaged(t, gcpemulator.Options{})
		w.create(p)
		w.minutes(p, 3)
		w.edit(change)
		n := w.emulator.Calls("firewalls.update")
		w.minutes(p, 12)
		if removed, updated := w.emulator.Calls("firewalls.delete"), w.emulator.Calls("firewalls.update")-n; removed != 1 || updated != 0 {
			t.Errorf("%s: %d removals, %d updates", name, removed, updated)
		}
		w.expectOpen(t, name, "3128")

		// Meanwhile nothing is created that nobody could reach.
		w.edit(change)
		next, req := w.provider(), w.request()
		expect(t, name+", Create", next.Create(t.Context(), req, w.ref(req, 1)), provider.ErrTransient, "", "is being removed")
		if left := w.left(); len(left) != 2 {
			t.Errorf("%s: left is %q", name, left)
		}
		must(w.t, next.Create(t.Context(), req, w.ref(req, 1)))
		w.expectOpen(t, name+", with the next try", "3128")
	}
}

func TestWithoutManagementNobodyAsksForRules(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	w.minutes(p, 12)
	p.Check(t.Context())
	must(w.t, p.Delete(t.Context(), ref))
	for call, n := range w.emulator.AllCalls() {
		if strings.HasPrefix(call, "firewalls.") {
			t.Errorf("%d calls of %s", n, call)
		}
	}
}
