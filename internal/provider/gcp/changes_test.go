package gcp_test

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/compute/apiv1/computepb"
	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A VM keeps the address that it was made with, whatever the entry says since. Only the next one is made otherwise.
func TestTheKindOfAddressIsTheVMs(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	ofKind := map[string]provider.Ref{}
	for _, kind := range []string{"external", "internal"} {
		w.extra = "addressType: " + kind + "\n"
		ofKind[kind], _ = w.create(w.provider())
	}
	for _, now := range []string{"external", "internal"} {
		w.extra = "addressType: " + now + "\n"
		p := w.provider()
		listed, err := p.ListByTag(t.Context())
		must(w.t, err)
		for kind, ref := range ofKind {
			inst := w.get(p, ref)
			inside := strings.HasPrefix(inst.IP, "10.")
			if inst.State != provider.StateRunning || inst.IP == "" || inside != (kind == "internal") || (inst.ExitAddress == "") != inside {
				t.Errorf("made as %s, the entry says %s: %s at %q, exit %q", kind, now, inst.State, inst.IP, inst.ExitAddress)
			}
			if !slices.ContainsFunc(listed.Instances, func(l provider.Instance) bool { return l.ID == ref.ID && l.IP == inst.IP }) {
				t.Errorf("made as %s, the entry says %s: listed are %+v", kind, now, listed.Instances)
			}
		}
	}
	// One that was made external has no other address, also where a hand has taken it away.
	w.emulator.SetAccessConfigs(ofKind["external"].ID, []*computepb.AccessConfig{}...)
	if inst := w.get(w.provider(), ofKind["external"]); inst.State != provider.StateProvisioning || !strings.Contains(inst.Message, "no external address") {
		t.Errorf("without its external address: %+v", inst)
	}
}

// Where the VM does not say, the entry does.
func TestVMsThatDoNotSayWhichAddress(t *testing.T) {
	for _, label := range []string{"", "both"} {
		w := newT(t, gcpemulator.Options{})
		ref := w.ref(w.request(), 1)
		labels := marked(ref.UID, 1)
		if label != "" {
			labels["proxy-operator-address"] = label
		}
		w.insert("us-central1-a", &compute.Instance{Name: provider.NameFromUID(ref.UID), Labels: labels})
		for _, kind := range []string{"external", "internal"} {
			w.extra = "addressType: " + kind + "\n"
			if inst := w.get(w.provider(), ref); inst.State != provider.StateRunning || strings.HasPrefix(inst.IP, "10.") != (kind == "internal") {
				t.Errorf("%q in an entry of %s addresses: %+v", label, kind, inst)
			}
		}
	}
}

// An entry that is given another tag or network does not cut off what runs: their rule stays, and the next VMs get another.
func TestAnotherTagOrNetworkSparesTheRuleThereIs(t *testing.T) {
	for what, tc := range map[string]struct{ extra, opened string }{
		"tag": {"networkTag: exits\n", "8080"},
		// Lists do not say which network a VM is in, and its tag is the same.
		"network": {"network: global/networks/crawl\n", "3128,8080"},
	} {
		w, p := newManaged(t, gcpemulator.Options{})
		w.create(p)
		w.minutes(p, 2)
		before := *w.rules()[0]
		unchanged := func() bool {
			return slices.ContainsFunc(w.rules(), func(r *compute.Firewall) bool {
				return r.Name == before.Name && r.Network == before.Network && slices.Equal(r.TargetTags, before.TargetTags) &&
					slices.Equal(r.Allowed[0].Ports, before.Allowed[0].Ports)
			})
		}
		w.extra = tc.extra
		next := w.provider()
		w.create(next, port(8080))
		w.minutes(next, 20)
		rules := w.rules()
		if len(rules) != 2 || !unchanged() {
			t.Errorf("another %s: the rules are %+v, before %+v", what, rules, before)
			continue
		}
		other := rules[0]
		if other.Name == before.Name {
			other = rules[1]
		}
		if other.Network == before.Network && slices.Equal(other.TargetTags, before.TargetTags) || strings.Join(other.Allowed[0].Ports, ",") != tc.opened {
			t.Errorf("another %s: the other rule is %+v", what, other)
		}
		// Back again, the first rule is the entry's as if nothing had been.
		w.extra = ""
		p = w.provider()
		w.create(p, port(9090))
		w.minutes(p, 3)
		if rules := w.rules(); len(rules) != 2 {
			t.Errorf("another %s, and back: the rules are %+v", what, rules)
		}
	}
}

// The same network in other words is no other one.
func TestANetworkInOtherWords(t *testing.T) {
	w, p := newManaged(t, gcpemulator.Options{})
	w.create(p)
	for _, network := range []string{"projects/project-a/global/networks/default", "https://www.googleapis.com/compute/v1/projects/project-a/global/networks/default"} {
		w.extra = "network: " + network + "\n"
		next := w.provider()
		w.create(next)
		w.minutes(next, 12)
		w.expectOpen(t, network, "3128") // it is one rule
	}
}
