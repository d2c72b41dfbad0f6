package gcp_test

import (
	"strings"
	"testing"
	"time"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const (
	managed = "firewall: {manage: true, sourceRanges: [198.51.100.0/24, 192.0.2.0/24]}\n"
	// restricted is what an administrator declares who keeps the rule.
	restricted = "firewall: {existingSourceRanges: [192.0.2.0/24]}\n"
)

func newManaged(t *testing.T, opts gcpemulator.Options) (*world, *gcp.Provider) {
	t.Helper()
	w := newT(t, opts)
	w.firewall = managed
	return w, w.provider()
}

// rules are the firewall rules of the project.
func (w *world) rules() []*compute.Firewall {
	w.t.Helper()
	list, err := w.sdk().Firewalls.List("project-a").Context(w.t.Context()).Do()
	must(w.t, err)
	return list.Items
}

// open are the ports of the one rule there is, "none" for none.
func (w *world) opened() string {
	w.t.Helper()
	rules := w.rules()
	switch {
	case len(rules) == 0:
		return "none"
	case len(rules) > 1 || len(rules[0].Allowed) != 1:
		w.t.Fatalf("there are %d rules", len(rules))
	}
	return strings.Join(rules[0].Allowed[0].Ports, ",")
}

func (w *world) expectOpen(t *testing.T, when, want string) {
	t.Helper()
	if got := w.opened(); got != want {
		t.Errorf("%s: open is %s, want %s", when, got, want)
	}
}

// minutes go by, with a list each.
func (w *world) minutes(p provider.Provider, n int) {
	w.t.Helper()
	for range n {
		w.advance(time.Minute)
		w.list(p)
	}
}

func port(n int32) func(*provider.CreateRequest) {
	return func(r *provider.CreateRequest) { r.Port = n }
}

// edit changes the one rule by hand.
func (w *world) edit(change func(*compute.Firewall)) {
	w.t.Helper()
	rule := w.rules()[0]
	change(rule)
	_, err := w.sdk().Firewalls.Update("project-a", rule.Name, rule).Context(w.t.Context()).Do()
	must(w.t, err)
}
