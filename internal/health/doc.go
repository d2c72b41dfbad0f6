// Package health probes every proxy of the fleet through the proxy itself and says which of them carry traffic.
//
//	fleet.Watch ──► intake ──► one state per Proxy ──► due queues ──► lanes ──► Prober
//	                                  ▲                                           │
//	                                  └────────── judge ◄─────── Result ◄─────────┘
//	                                                │
//	                     fleet.SetVerdict, then OnTransition(key)
//
// The judge decides alone and without I/O. A verdict speaks of one fleet.Subject; whatever a probe finds about an older
// subject, an older probe target or a Proxy that is gone is dropped.
package health
