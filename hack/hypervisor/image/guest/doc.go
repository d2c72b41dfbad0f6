// Package guest makes the disk of a guest for hack/hypervisor.
package guest
