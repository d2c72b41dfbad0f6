// Package libvirttest has what tests of the provider kvm put in the place of a libvirt daemon, or before one: a daemon in memory
// that keeps domains, volumes and leases, and a wire on which calls to either can be held, lost, delayed or refused.
package libvirttest
