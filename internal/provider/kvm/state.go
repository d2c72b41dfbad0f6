package kvm

import (
	"fmt"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Why a domain is off that has not been started since its daemon came up. Right after its definition it is that, too.
const neverStarted = int32(libvirt.DomainShutoffUnknown)

// condition is what a domain's state comes to.
type condition struct {
	state   provider.State
	message string
	class   error // of a failure
}

// stateOf reads a domain's state:
//
//	running, blocked                        Running, as far as an address is known
//	paused: I/O error, crashed, watchdog    Stopped: nothing but a person brings it back
//	paused: starting up                     Provisioning
//	paused: anything else, being shut down, suspended, no state, any new one
//	                                        Unknown: held, for it may serve again, and somebody may have done that on purpose
//	off: failed to start                    Failed, something left
//	off: anything else, crashed             Stopped
//
// Whether one that is off has not been started yet is not for this table: see Get.
func stateOf(p power) condition {
	switch p.state {
	case libvirt.DomainRunning, libvirt.DomainBlocked:
		return condition{state: provider.StateRunning}
	case libvirt.DomainPaused:
		return paused(libvirt.DomainPausedReason(p.reason))
	case libvirt.DomainShutdown:
		return condition{state: provider.StateUnknown, message: "the domain is shutting down"}
	case libvirt.DomainShutoff:
		return off(libvirt.DomainShutoffReason(p.reason))
	case libvirt.DomainCrashed:
		return condition{state: provider.StateStopped, message: "the domain has crashed"}
	case libvirt.DomainPmsuspended:
		return condition{state: provider.StateUnknown, message: "the guest has suspended itself"}
	case libvirt.DomainNostate:
		return condition{state: provider.StateUnknown, message: "the domain has no state"}
	}
	return condition{state: provider.StateUnknown, message: fmt.Sprintf("the domain is in state %d", p.state)}
}

func paused(reason libvirt.DomainPausedReason) condition {
	switch reason {
	case libvirt.DomainPausedIoerror:
		return condition{state: provider.StateStopped, message: "the domain is paused by an I/O error; the pool may be full"}
	case libvirt.DomainPausedCrashed:
		return condition{state: provider.StateStopped, message: "the guest has crashed"}
	case libvirt.DomainPausedWatchdog:
		return condition{state: provider.StateStopped, message: "the domain is paused by its watchdog"}
	case libvirt.DomainPausedStartingUp:
		return condition{state: provider.StateProvisioning, message: "the domain is starting"}
	case libvirt.DomainPausedUser:
		return condition{state: provider.StateUnknown, message: "somebody has paused the domain"}
	default:
		return condition{state: provider.StateUnknown, message: fmt.Sprintf("the domain is paused (reason %d)", reason)}
	}
}

func off(reason libvirt.DomainShutoffReason) condition {
	stopped := func(message string) condition { return condition{state: provider.StateStopped, message: message} }
	switch reason {
	case libvirt.DomainShutoffShutdown:
		return stopped("the guest has shut down")
	case libvirt.DomainShutoffDestroyed:
		return stopped("the domain was switched off")
	case libvirt.DomainShutoffCrashed:
		return stopped("the domain has crashed")
	case libvirt.DomainShutoffSaved:
		return stopped("the domain was saved and switched off")
	case libvirt.DomainShutoffFailed:
		return condition{state: provider.StateFailed, class: provider.ErrTransient, message: "the domain did not start"}
	case libvirt.DomainShutoffUnknown:
		return stopped("the domain is off, as after a restart of its host")
	default:
		return stopped(fmt.Sprintf("the domain is off (reason %d)", reason))
	}
}
