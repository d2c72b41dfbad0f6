// Package kvm runs instances as libvirt domains on hosts that are reached by SSH.
//
// An instance is a domain and two volumes of the host's pool: a disk on top of a base image, and a seed with the cloud-init
// data. Nothing but calls to the host's own daemon is made there; no program of ours runs on it.
//
// The domain carries the marks in its metadata and is what counts. It is defined before the volumes are made and removed
// after they are gone, both inside Create and Delete alone, so whatever a crash leaves behind has a domain that says whose
// it is. Volumes have no place for marks; their names carry the owner's UID, the attempt and a digest of the installation, so
// what outlives its domain, which somebody has undefined by hand, is still known as ours.
//
// The name of a domain is the same for every attempt, and libvirt allows it once: there is never more than one instance under
// an ID. Its UUID is derived from owner and attempt. All calls name the domain by that UUID, so one that was meant for an
// older attempt cannot reach a newer one.
//
// libvirt forgets calls as soon as they are answered, and one whose caller has died may still run. So absence is proven only
// once everything that was ever sent has come to its end (provider.Window).
//
// A file for each concern, from the contract down to the wire:
//
//	kvm, plan, create, get, list, delete, check   the contract's methods
//	config, configcheck, place, marks             what an entry says, where an ID is, whose an instance is
//	look, state, address                          what is read of an instance, and what that comes to
//	domainxml, seed                               what a guest is made of
//	store                                         a pool as package baseimage uses it
//	host, pool, rpc, errors, logs                 one hypervisor, its calls, what their failures mean
//
// Below: session is one connection per host with everything that keeps it apart from the others, dial the way there by SSH,
// baseimage brings images into pools, libvirttest is a daemon in memory.
package kvm
