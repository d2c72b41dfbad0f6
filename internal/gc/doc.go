// Package gc deletes orphans: instances of this installation whose Proxy is gone for good. It is the net under the
// reconciler, for objects that were released without their instance (skip-cleanup, a finalizer removed by hand, a
// namespace restored without them) and for instances in scopes that could not be read when their Proxy went.
//
//	Sweep ──► list all providers ──► list all Proxies, live ──► judge ──► breaker ──► for each orphan:
//	             │ error                 │ any page fails                   │           read its Proxy again, live
//	             ▼                       ▼                                  ▼           delete what was listed
//	          this provider           this sweep                        held until
//	          is left out             is over                           approved
//
// # Rules
//
// Deleting a wrong instance is worse than keeping an orphan for another sweep, so whatever is in doubt stays:
//
//   - The cloud is listed before the Proxies. A Proxy exists before its instance does, so an instance in the first list
//     whose UID is not in the second one had lost its Proxy by then, or never had one.
//   - Only dead UIDs count, and a UID that died never comes back: a process that was paused between its last look and
//     its Delete does no harm when it wakes up. A Proxy that is being deleted is alive; so are all strays of live ones.
//     They are the reconciler's.
//   - Marks that are incomplete, not this installation's or none that an operator could have written make an instance
//     foreign, whatever else it looks like. So does another name than its UID's: it is a copy that somebody made of an
//     instance, marks and all, whether or not its Proxy lives.
//   - An orphan is older than MinAge and was dead in the previous sweep too, under the same ID and identity. A provider
//     that could not be listed, an unread scope and a skipped sweep each start the count anew.
//   - Delete names the listed identity and attempt, so that nothing that took the place meanwhile is hit.
//   - The breaker holds a sweep that would remove too much of a provider at once; a person releases exactly that set.
package gc
