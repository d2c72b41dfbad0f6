// Package kvm proves the provider kvm with real guests on the hypervisor of hack/hypervisor: `make e2e-kvm`.
//
// The operator is the binary that is shipped, in a process of its own that can be killed, against the real control plane. The
// guests boot a Debian whose Squid is configured by cloud-init, and a website lies on an address that only they and the test
// reach. Each part prints what it has proven.
package kvm
