package kvm_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func scopedTo(t *testing.T, hosts string) *kvm.Provider {
	t.Helper()
	block, err := registry.ParseBlock(kvm.Type, []byte("hosts: ["+hosts+"]\nimages: {i: {url: 'http://192.0.2.1/i', sha256: '"+
		"0000000000000000000000000000000000000000000000000000000000000000'}}\nmachineTypes: {small: {vcpus: 1, memoryMiB: 512, diskGiB: 10}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := kvm.New(t.Context(), provider.Options{
		Name: "hosts", Block: block, Owner: provider.Owner{Installation: "i", Cluster: "c"},
		Window: provider.Window{Clock: clock.RealClock{}, CallTimeout: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.(*kvm.Provider).Close() })
	return p.(*kvm.Provider)
}

// TestScopeIsWhatGetSays: a reload goes by the one, passes by the other.
func TestScopeIsWhatGetSays(t *testing.T) {
	t.Parallel()
	const name = "proxy-abcdefghij234567"
	p := scopedTo(t, "{name: h1, socket: /nonexistent/h1}, {name: h2, socket: /nonexistent/h2}")
	valid := []string{"hosts/h1/domains/" + name, "hosts/h2/domains/" + name}
	for i, id := range append(valid, "", "hosts/h1", "hosts/h3/domains/"+name, "hosts/h1/domains/x", "hosts/h1/domains/"+name+"/x",
		"hosts/H1/domains/"+name, "hosts/h1/processes/"+name) {
		_, err := p.Get(t.Context(), provider.Ref{ID: id, UID: "u", Attempt: 1})
		scope := p.InScope(id)
		if outside := provider.Reason(err) == provider.ReasonScopeMismatch; outside != (scope != nil) || outside && scope.Error() != err.Error() {
			t.Errorf("%q: InScope says %v, Get %v", id, scope, err)
		}
		if (scope == nil) != (i < len(valid)) {
			t.Errorf("%q: %v", id, scope)
		}
	}
}

// TestAHostIsKnownByItsAddressOrItsUUID: with the latter it may get another address while it is in use.
func TestAHostIsKnownByItsAddressOrItsUUID(t *testing.T) {
	t.Parallel()
	const ssh, id = ", user: u, keyFile: /k, knownHostsFile: /h", "hosts/h/domains/proxy-abcdefghij234567"
	const one, two = ", hostUUID: 6ba7b810-9dad-11d1-80b4-00c04fd430c8", ", hostUUID: 6ba7b810-9dad-11d1-80b4-00c04fd430c9"
	for _, c := range []struct {
		was, is string
		same    bool
	}{
		{"address: a.example", "address: A.example, pool: other", true},
		{"address: a.example", "address: b.example", false},
		{"address: a.example", "address: a.example" + one, true},
		{"address: a.example" + one, "address: b.example" + one, true},
		{"address: a.example" + one, "address: b.example" + two, false},
		{"address: a.example" + one, "address: b.example", false},
	} {
		was := scopedTo(t, "{name: h, "+c.was+ssh+"}").Sites(id)
		is := scopedTo(t, "{name: h, "+c.is+ssh+"}").Sites(id)
		if same := slices.ContainsFunc(is, func(s string) bool { return slices.Contains(was, s) }); same != c.same {
			t.Errorf("%s, then %s: %q, then %q; want the same %v", c.was, c.is, was, is, c.same)
		}
	}
}
