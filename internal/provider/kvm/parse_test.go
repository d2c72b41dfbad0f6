package kvm_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
)

// What the configuration takes for an address is one to whoever dials it.
func FuzzAddressable(f *testing.F) {
	for _, s := range []string{"hv1", "hv1:22", "[::1]:22", "::1", "[fe80::1%eth0]", "192.0.2.1:2222", "user@hv1", "a.b.:1", "[1.2.3.4]", "%", "a:b:c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		if !kvm.Addressable(address) {
			return
		}
		// Without its files nothing is dialed.
		conn, err := dial.Target{Address: address, User: "u", KeyFile: "/nowhere", KnownHostsFile: "/nowhere"}.Dial(t.Context())
		if err == nil {
			_ = conn.Close()
			t.Fatalf("%q was reached", address)
		}
		if e, ok := errors.AsType[*dial.Error](err); !ok || e.Reason == dial.Unreachable {
			t.Errorf("%q: %v", address, err)
		}
	})
}

// An ID is read in one way, and only if this provider would write it just so.
func FuzzPlaceOf(f *testing.F) {
	good := "hosts/" + hostA + "/domains/" + provider.NameFromUID("x")
	for _, s := range []string{"", good, good + "/", "/" + good, strings.ToUpper(good), strings.Replace(good, hostA, "..", 1), good + "\n", "hosts//domains/"} {
		f.Add(s)
	}
	w := newWorld(quiet{})
	p, err := w.open(entry, owner, w.block())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = p.Close(); w.server.Close() })
	f.Fuzz(func(t *testing.T, id string) {
		host, name, err := p.PlaceOf(id)
		switch {
		case err == nil && (id != "hosts/"+host+"/domains/"+name || host != hostA && host != hostB || !strings.HasPrefix(name, "proxy-") || len(name) != 22):
			t.Errorf("%q is %q on %q", id, name, host)
		case err != nil && (provider.Class(err) != provider.ErrPermanent || provider.Reason(err) != provider.ReasonScopeMismatch):
			t.Errorf("%q: %v", id, err)
		}
		if target := p.Target(provider.Ref{ID: id}); target != host {
			t.Errorf("%q is on %q, its target is %q", id, host, target)
		}
	})
}

// The name of a volume is read only if it is just what this operator would write.
func FuzzParseVolume(f *testing.F) {
	disk, seed := kvm.VolumesOf(owner, hostA, "00000000-0000-4000-8000-000000000001", 1)
	for _, s := range []string{disk, seed, disk + "x", strings.Replace(disk, ".1.", ".01.", 1), strings.Replace(disk, ".1.", ".-1.", 1), strings.Replace(disk, ".1.", ".+1.", 1), "a.b.c.d.e", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		uid, attempt, again, ok := kvm.ParseVolume(name)
		if ok && (attempt <= 0 || again[0] != name && again[1] != name || !strings.HasPrefix(name, provider.NameFromUID(uid)+".")) {
			t.Errorf("%q: %q, %d, %q", name, uid, attempt, again)
		}
	})
}

func TestVolumesAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		uid := rapid.StringMatching(`[A-Za-z0-9-]{1,64}`).Draw(t, "uid")
		attempt := rapid.Int64Range(1, 1<<62).Draw(t, "attempt")
		disk, seed := kvm.VolumesOf(owner, hostA, uid, attempt)
		for _, name := range []string{disk, seed} {
			gotUID, gotAttempt, again, ok := kvm.ParseVolume(name)
			if !ok || gotUID != uid || gotAttempt != attempt || again != [2]string{disk, seed} {
				t.Fatalf("%q: %q, %d, %q, %t", name, gotUID, gotAttempt, again, ok)
			}
			if len(name) > 255 || strings.ContainsAny(name, "/ ") {
				t.Fatalf("%q is no name of a file", name)
			}
		}
	})
	// Other owners have other names.
	disk, _ := kvm.VolumesOf(owner, hostA, "u", 1)
	for _, o := range []provider.Owner{{Installation: "other", Cluster: owner.Cluster}, {Installation: owner.Installation, Cluster: "other"}} {
		if other, _ := kvm.VolumesOf(o, hostA, "u", 1); other == disk || kvm.DomainUUID(o, "u", 1) == kvm.DomainUUID(owner, "u", 1) {
			t.Errorf("%v has the names of %v", o, owner)
		}
	}
}

// hostile are strings that XML may hold.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("<>&\"'\t\n\r ]]>;äß😀\u2028\u0085\uFFFD")), 0, 40, -1),
		rapid.StringOfN(rapid.Rune().Filter(func(r rune) bool {
			return (r >= 0x20 || r == '\t' || r == '\n' || r == '\r') && r != 0xFFFE && r != 0xFFFF && (r < 0xD800 || r > 0xDFFF)
		}), 0, 40, -1),
	)
}

// Marks come back as they were put down, whatever is in them.
func TestMarksAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := provider.Marks{
			UID: "u", Installation: "i", Cluster: "c",
			Namespace: hostile().Draw(t, "namespace"), Name: hostile().Draw(t, "name"), Spec: hostile().Draw(t, "spec"),
			Attempt: rapid.Int64Range(1, 1<<62).Draw(t, "attempt"),
		}
		wantPort := rapid.Int32Range(1, 65535).Draw(t, "port")
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "created"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		text, err := kvm.Metadata(want, wantPort, "52:00:00:00:00:01", at)
		if err != nil {
			t.Fatal(err)
		}
		got, port, created := kvm.ReadMetadata(text)
		if got != want || port != wantPort || !created.Equal(at) {
			t.Fatalf("%+v, %d, %v of %q, want %+v, %d, %v", got, port, created, text, want, wantPort, at)
		}
	})
}

// What is not ours, or not all of it, is nobody's.
func FuzzReadMetadata(f *testing.F) {
	text, err := kvm.Metadata(provider.Marks{UID: "u", Installation: "i", Cluster: "c", Attempt: 1}, 3128, "52:00:00:00:00:01", time.Unix(0, 0))
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{text, "", "<", strings.Replace(text, `attempt="1"`, `attempt="-1"`, 1), strings.Replace(text, `port="3128"`, `port="99999"`, 1), strings.Replace(text, `created="1970`, `created="x`, 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, port, _ := kvm.ReadMetadata(text)
		if m != (provider.Marks{}) && (m.UID == "" || m.Installation == "" || m.Cluster == "" || m.Attempt < 1) {
			t.Errorf("%q: %+v", text, m)
		}
		if port < 0 || port > 65535 {
			t.Errorf("%q: port %d", text, port)
		}
	})
}

// MAC addresses are unicast, locally administered, and no two are the same.
func TestMACAddresses(t *testing.T) {
	w := newT(t)
	p := w.provider()
	seen := map[string]bool{}
	for range 20 {
		req, ref := w.made(p)
		d, name := w.daemon(ref.ID)
		for _, dom := range d.Domains() {
			if dom.Name != name {
				continue
			}
			mac, err := net.ParseMAC(dom.MAC)
			if err != nil || len(mac) != 6 || mac[0]&1 != 0 || mac[0]&2 == 0 || seen[dom.MAC] {
				t.Errorf("%s has %q (%v), seen before: %t", req.Name, dom.MAC, err, seen[dom.MAC])
			}
			seen[dom.MAC] = true
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d addresses", len(seen))
	}
}
