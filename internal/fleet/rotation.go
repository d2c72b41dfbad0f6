package fleet

import "k8s.io/apimachinery/pkg/types"

// rotate lets a proxy that works go on under the credentials that it works with, after others were put into its Secret:
// until somebody has seen the new ones work, and for as long as Promote is not called, they are only Next.
func (p *Proxy) rotate(old *Proxy) {
	if p.Credentials == nil || old.Credentials == nil || p.UID != old.UID || p.Attempt != old.Attempt || p.Endpoint != old.Endpoint ||
		p.Credentials.Revision == old.Credentials.Revision {
		return
	}
	if old.Next == nil && (old.Verdict.Health != Healthy || old.Verdict.Subject != old.Subject()) {
		return
	}
	p.Next, p.Credentials = p.Credentials, old.Credentials
}

// Promote puts the Next credentials of the Proxy under key, which must be of that revision, into force. v is what is known
// of it under them; it returns false and changes nothing when v speaks of something else.
func (s *Store) Promote(key types.NamespacedName, revision string, v Verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.proxies[key]
	if old == nil || old.Next == nil || old.Next.Revision != revision {
		return false
	}
	next := *old
	next.Credentials, next.Next, next.Verdict = old.Next, nil, v
	if next.Subject() != v.Subject {
		return false
	}
	s.put(old, &next)
	return true
}
