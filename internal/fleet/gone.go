package fleet

import "k8s.io/apimachinery/pkg/types"

// Instance is what a backend can tell of: an instance and where it serves.
type Instance struct {
	UID      string
	ID       string
	Attempt  int64
	Endpoint Endpoint
}

// Instance returns the one that p's status records.
func (p *Proxy) Instance() Instance {
	return Instance{UID: p.UID, ID: p.ProviderID, Attempt: p.Attempt, Endpoint: p.Endpoint}
}

// SetGone records whether inst no longer serves where the snapshot under key says. It holds for as long as the snapshot
// speaks of that instance, and bridges the time until the status says so, too. The verdict goes either way: what was known
// of the address before it was left says nothing of whoever is there when it is back. It returns false and changes nothing
// when the snapshot speaks of another instance.
func (s *Store) SetGone(key types.NamespacedName, inst Instance, gone bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.proxies[key]
	if old == nil || old.Instance() != inst {
		return false
	}
	if old.Gone == gone {
		return true
	}
	next := *old
	next.Gone, next.AddressLost, next.Verdict = gone, false, Verdict{Subject: next.Subject()}
	s.put(old, &next)
	return true
}
