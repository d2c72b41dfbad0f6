package fleet

import (
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// settleClaims leaves an endpoint claimed by several Managed Proxies to the one observed last: the others' addresses
// are older knowledge. s.mu is held.
func (s *Store) settleClaims(e Endpoint) {
	var winner *Proxy
	for key := range s.byAddr[e] {
		p := s.proxies[key]
		if winner == nil || claimsBefore(winner, p) {
			winner = p
		}
	}
	for key := range s.byAddr[e] {
		p := s.proxies[key]
		if lost := p != winner; lost != p.AddressLost {
			next := *p
			next.AddressLost = lost
			s.proxies[key] = &next
			s.notify(key)
		}
	}
}

// claims reports whether p's endpoint is an address that a backend gave it and may have given to another since.
func (p *Proxy) claims() bool {
	return p.Mode == v1alpha1.ModeManaged && p.Endpoint.Host != "" && !p.Gone
}

// claimsBefore reports whether b's claim is better than a's. Equal times fall back to the key so that the outcome does
// not depend on the order of events.
func claimsBefore(a, b *Proxy) bool {
	if !a.ObservedAt.Equal(b.ObservedAt) {
		return a.ObservedAt.Before(b.ObservedAt)
	}
	return compareKeys(a.Key, b.Key) > 0
}

// latestClaim returns a time after every other claim to p's endpoint, at least p's own. An instance that comes back under
// another address without ever being seen away leaves no time of that in the status; but changes arrive in the order in
// which they were written, so this one is the latest. s.mu is held.
func (s *Store) latestClaim(p *Proxy) time.Time {
	at := p.ObservedAt
	for key := range s.byAddr[p.Endpoint] {
		if other := s.proxies[key]; key != p.Key && !other.ObservedAt.Before(at) {
			at = other.ObservedAt.Add(1)
		}
	}
	return at
}
