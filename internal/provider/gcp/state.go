package gcp

import (
	"strings"

	compute "google.golang.org/api/compute/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// condition is what a VM's status means.
type condition struct {
	state    provider.State
	message  string
	ip, exit string
}

// stateOf is the table of what a VM's status means. See https://cloud.google.com/compute/docs/instances/instance-lifecycle.
//
//	PENDING, PROVISIONING, STAGING           Provisioning
//	RUNNING with an address                  Running
//	RUNNING without one                      Provisioning
//	PENDING_STOP, STOPPING, DEPROVISIONING   Deleting: an operation is under way, which nobody should repeat
//	STOPPED, TERMINATED, SUSPENDED           Stopped: it exists, and does not come back by itself
//	SUSPENDING, REPAIRING, any other         Unknown: held
func (p *Provider) stateOf(vm *compute.Instance) condition {
	switch vm.Status {
	case "PENDING", "PROVISIONING", "STAGING":
		return condition{state: provider.StateProvisioning, message: strings.ToLower(vm.Status)}
	case "RUNNING":
		return p.running(vm)
	case "PENDING_STOP", "STOPPING", "DEPROVISIONING":
		return condition{state: provider.StateDeleting, message: strings.ToLower(vm.Status)}
	case "STOPPED", "TERMINATED", "SUSPENDED":
		return condition{state: provider.StateStopped, message: join("the VM is "+strings.ToLower(vm.Status), vm.StatusMessage)}
	case "":
		return condition{state: provider.StateUnknown, message: "the VM has no status"}
	}
	return condition{state: provider.StateUnknown, message: join("the VM's status is "+vm.Status, vm.StatusMessage)}
}

func (p *Provider) running(vm *compute.Instance) condition {
	c := condition{state: provider.StateRunning}
	kind := vm.Labels[labelAddress]
	if kind != external && kind != internal {
		kind = p.config.AddressType
	}
	for _, nic := range vm.NetworkInterfaces {
		if kind == internal {
			c.ip = nic.NetworkIP
		} else {
			for _, a := range nic.AccessConfigs {
				if a.NatIP != "" {
					c.ip, c.exit = a.NatIP, a.NatIP
					break
				}
			}
		}
		if c.ip != "" {
			break
		}
	}
	switch {
	case c.ip == "":
		return condition{state: provider.StateProvisioning, message: "the VM runs and has no " + kind + " address"}
	case portOf(vm.Labels) == 0:
		return condition{state: provider.StateUnknown, message: "the VM's label " + labelPort + " is not a port"}
	}
	return c
}

func join(what, detail string) string {
	if detail == "" {
		return what
	}
	return what + ": " + detail
}

// lastOf returns the last element of a URL's path: zones and networks are given as whole URLs.
func lastOf(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }
