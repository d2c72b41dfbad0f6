// Package lease hands proxies out to crawlers, each to at most as many at one time as its cap allows.
//
// Two concerns, kept apart. The picker knows the order over the fleet: which of the proxies that match is the best to
// give. It keeps a ranking per class of requests (namespace, selector, preference), in which a pick costs the logarithm of
// the fleet. The Ledger knows who holds what: leases, cooldowns, withdrawn proxies and who waits, in memory, behind one
// mutex, on one clock. An acquisition picks and records in one critical section, so that what the picker saw is still true
// when the lease is written down.
//
//	            Acquire                  now ≥ ExpiresAt               window over
//	(nothing) ──────────► live ──────────────────────────► expired ───────────────► forgotten
//	                       │  Release                       released ──────────────►
//	                       │  its key left the fleet        gone     ──────────────►
//	                       └─ Renew: stays live, at most Options.MaxLifetime after its start
//
// An ended lease is remembered for the cooldown window, because the report that matters most comes late: the ban was
// noticed while the lease ran out. Leases and cooldowns belong to a fleet.LeaseKey, thus to one instance (or one
// External endpoint): a late report by the holder of an old instance cannot ban its successor.
//
// Time never runs backwards here: a lease that expired stays expired when the clock is set back. A restart forgets all
// leases and cooldowns; Ledger.Epoch tells clients that it happened.
package lease
