// Package providerhealth asks the backends of all provider entries how they are, and shows the answers as ProviderHealth
// objects, metrics, Events and log lines.
//
//	interval ──┐           ┌─► Checker of entry a ─┐
//	           ├─► round ──┼─► Checker of entry b ─┼─► answer ──► OnChecked, metrics ──► object, if something changed
//	Refresh ───┘           └─► Checker of entry c ─┘                                          │
//	                 └─► objects of entries that are gone are deleted                         └─► Events of what was written
//
// # Rules
//
//   - Everything but the Checkers runs in one goroutine: a round only starts them, and each answer is dealt with when it
//     comes. So no entry waits for another one, and Refresh works while a Checker hangs.
//   - Of one entry in one revision at most one Checker runs at a time. One that does not return although its time is over is
//     left alone, its targets count as CheckTimeout, and the entry is asked again only when it has returned.
//   - An answer about a configuration that has been replaced meanwhile is dropped.
//   - An object is touched only if it carries this installation's label. What is written is checked against the
//     resourceVersion that was read, what is deleted against the UID as well.
//   - In the steady state nothing is written between two report intervals: that latency or details differ is no change.
package providerhealth
