// Package fleet is the read model of the fleet: one immutable snapshot per Proxy, fed by informers and, on the leader,
// by the health engine. Discovery, leases and health read it; nothing lists the informer cache on a request path.
//
//	informer events ──► Apply / Remove ─┐
//	health engine   ──► SetVerdict ─────┼─► snapshots + attribute index ──► Get, Select, List
//	                                    └─► Watch: coalesced changed keys
package fleet
