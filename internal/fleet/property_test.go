package fleet_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// model is the store without any index: what a snapshot must look like is worked out from all of them at each question.
type model map[types.NamespacedName]fleet.Proxy

func sorted(a, b fleet.Proxy) int {
	return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
}

// list returns the snapshots for which keep says so, sorted, with the claims settled.
func (m model) list(keep func(*fleet.Proxy) bool) []fleet.Proxy {
	out := []fleet.Proxy{}
	for _, p := range m {
		p.AddressLost = false
		for _, other := range m {
			rival := other.Key != p.Key && other.Endpoint == p.Endpoint && other.Endpoint.Host != "" &&
				other.Mode == v1alpha1.ModeManaged && p.Mode == v1alpha1.ModeManaged
			later := other.ObservedAt.After(p.ObservedAt) || other.ObservedAt.Equal(p.ObservedAt) && sorted(other, p) < 0
			p.AddressLost = p.AddressLost || rival && later
		}
		if keep(&p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, sorted)
	return out
}

func (m model) apply(p fleet.Proxy) {
	old, ok := m[p.Key]
	if p.Credentials != nil && old.Credentials != nil && p.Credentials.Revision != old.Credentials.Revision {
		same := p
		same.Credentials = old.Credentials
		works := old.Verdict.Subject == old.Subject() && old.Verdict.Health == fleet.Healthy
		if same.Subject() == old.Subject() && (works || old.Next != nil) { // nothing but the credentials is another
			p.Next, p.Credentials = p.Credentials, old.Credentials
		}
	}
	p.Verdict = fleet.Verdict{Subject: p.Subject()}
	if ok && old.Subject() == p.Subject() {
		p.Verdict = old.Verdict
	}
	if ok && old.UID == p.UID && !p.ObservedAt.After(old.ObservedAt) {
		p.ObservedAt = old.ObservedAt
		if old.Endpoint != p.Endpoint && p.Mode == v1alpha1.ModeManaged && p.Endpoint.Host != "" {
			// It moved here just now: nobody's claim is newer.
			for _, other := range m {
				if other.Key != p.Key && other.Mode == v1alpha1.ModeManaged && other.Endpoint == p.Endpoint && !other.ObservedAt.Before(p.ObservedAt) {
					p.ObservedAt = other.ObservedAt.Add(1)
				}
			}
		}
	}
	m[p.Key] = p
}

func drawProxy(t *rapid.T, key types.NamespacedName, uid string) *fleet.Proxy {
	p := &fleet.Proxy{
		Key: key, UID: uid, Mode: v1alpha1.ModeManaged, Provisioned: true,
		Provider:   rapid.SampledFrom([]string{"p", "q"}).Draw(t, "provider"),
		Attempt:    rapid.Int64Range(0, 2).Draw(t, "attempt"),
		Replacing:  rapid.Bool().Draw(t, "replacing"),
		ObservedAt: epoch.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "observed")) * time.Second),
		Endpoint: fleet.Endpoint{
			Scheme: "http", Host: rapid.SampledFrom([]string{"", "a.test", "b.test"}).Draw(t, "host"), Port: int32(rapid.IntRange(1, 2).Draw(t, "port")),
		},
		Attributes: rapid.MapOf(rapid.SampledFrom([]string{"k", "l"}), rapid.SampledFrom([]string{"", "v", "w"})).Draw(t, "attributes"),
	}
	if rapid.IntRange(0, 4).Draw(t, "external") == 0 {
		p.Mode, p.Provider, p.Attempt, p.Replacing, p.ObservedAt = v1alpha1.ModeExternal, "", 0, false, time.Time{}
	}
	if r := rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "revision"); r != "" {
		withRevision(r)(p)
	}
	return p
}

func TestStoreIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, m := fleet.NewStore(), model{}
		w := s.Watch()
		view := map[types.NamespacedName]*fleet.Proxy{} // what a reader knows that looks only at keys told to it
		var keys []types.NamespacedName
		for _, ns := range []string{"n1", "n2"} {
			for _, n := range []string{"a", "b"} {
				keys = append(keys, types.NamespacedName{Namespace: ns, Name: n})
			}
		}
		key, uid := rapid.SampledFrom(keys), rapid.SampledFrom([]string{"u1", "u2"})
		t.Repeat(map[string]func(*rapid.T){
			"apply": func(t *rapid.T) {
				p := drawProxy(t, key.Draw(t, "key"), uid.Draw(t, "uid"))
				m.apply(*p)
				s.Apply(p)
			},
			"edit": func(t *rapid.T) { // the common case: little changes
				p, ok := m[key.Draw(t, "key")]
				if !ok {
					t.Skip()
				}
				p.Cordoned = !p.Cordoned
				if p.Next != nil { // what comes in holds what the spec names
					p.Credentials, p.Next = p.Next, nil
				}
				m.apply(p)
				s.Apply(&p)
			},
			"promote": func(t *rapid.T) {
				k, r := key.Draw(t, "key"), rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "revision")
				p := m[k]
				v := fleet.Verdict{Subject: p.Subject(), Health: fleet.Health(rapid.IntRange(0, 2).Draw(t, "health"))}
				v.Subject.CredentialRevision = r
				due := p.Next != nil && p.Next.Revision == r
				if s.Promote(k, r, v) != due {
					t.Fatalf("Promote: %v, next is %+v", !due, p.Next)
				}
				if due {
					p.Credentials, p.Next, p.Verdict = p.Next, nil, v
					m[k] = p
				}
			},
			"remove": func(t *rapid.T) {
				k, u := key.Draw(t, "key"), uid.Draw(t, "uid")
				if p, ok := m[k]; ok && p.UID == u {
					delete(m, k)
				}
				s.Remove(k, u)
			},
			"verdict": func(t *rapid.T) {
				k := key.Draw(t, "key")
				p, ok := m[k]
				v := fleet.Verdict{Subject: p.Subject(), Health: fleet.Health(rapid.IntRange(0, 2).Draw(t, "health"))}
				if rapid.IntRange(0, 2).Draw(t, "late") == 0 {
					v.Subject = drawProxy(t, k, uid.Draw(t, "uid")).Subject()
				}
				current := ok && v.Subject == p.Subject()
				if s.SetVerdict(k, v) != current {
					t.Fatalf("SetVerdict took %+v: %v, current is %+v", v, !current, p.Subject())
				}
				if current {
					p.Verdict = v
					m[k] = p
				}
			},
			"take": func(*rapid.T) {
				for _, k := range w.Take() {
					if p := s.Get(k); p != nil {
						view[k] = p
					} else {
						delete(view, k)
					}
				}
				for _, k := range keys {
					if view[k] != s.Get(k) {
						t.Fatalf("nobody told that %v changed", k)
					}
				}
			},
			"": func(t *rapid.T) { agree(t, s, m, keys) },
		})
	})
}

func agree(t *rapid.T, s *fleet.Store, m model, keys []types.NamespacedName) {
	same := func(what string, got []*fleet.Proxy, ordered bool, keep func(*fleet.Proxy) bool) {
		flat := make([]fleet.Proxy, len(got))
		for i, p := range got {
			flat[i] = *p
		}
		if !ordered {
			slices.SortFunc(flat, sorted)
		}
		if want := m.list(keep); !slices.EqualFunc(flat, want, equal) {
			t.Fatalf("%s:\ngot  %+v\nwant %+v", what, flat, want)
		}
	}
	for _, k := range keys {
		var got []*fleet.Proxy
		if p := s.Get(k); p != nil {
			got = append(got, p)
		}
		same("Get", got, true, func(p *fleet.Proxy) bool { return p.Key == k })
		if s.Replacing(k) != m[k].Replacing {
			t.Fatalf("Replacing(%v) is %v", k, !m[k].Replacing)
		}
	}
	if s.Len() != len(m) {
		t.Fatalf("Len %d, want %d", s.Len(), len(m))
	}
	for _, ns := range []string{"", "n1", "absent"} {
		for _, sel := range []map[string]string{nil, {}, {"k": "v"}, {"k": ""}, {"k": "v", "l": "w"}, {"k": "v", "absent": ""}} {
			keep := func(p *fleet.Proxy) bool {
				for k, v := range sel {
					if got, ok := p.Attributes[k]; !ok || got != v {
						return false
					}
				}
				return ns == "" || p.Key.Namespace == ns
			}
			same("Select", s.Select(ns, sel), false, keep)
			same("List", s.List(ns, sel), true, keep)
		}
	}
	for _, name := range []string{"p", "q", "absent"} {
		of := func(p *fleet.Proxy) bool { return p.Provider == name }
		same("OfProvider", s.OfProvider(name), false, of)
		var want fleet.Count
		for _, p := range m.list(of) {
			if p.Attempt > 0 {
				want.Recorded++
			}
			if p.Replacing {
				want.Replacing++
			}
		}
		if got := s.Count(name); got != want {
			t.Fatalf("Count(%s) is %+v, want %+v", name, got, want)
		}
	}
}

func equal(a, b fleet.Proxy) bool {
	return a.Key == b.Key && a.UID == b.UID && a.Mode == b.Mode && a.Provider == b.Provider && a.Endpoint == b.Endpoint &&
		a.Cordoned == b.Cordoned && a.Replacing == b.Replacing && a.AddressLost == b.AddressLost && a.Verdict == b.Verdict &&
		a.Subject() == b.Subject() && a.ObservedAt.Equal(b.ObservedAt) && maps.Equal(a.Attributes, b.Attributes)
}
