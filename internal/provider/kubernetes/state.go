package kubernetes

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// condition is what a Pod's status comes to.
type condition struct {
	state   provider.State
	message string
	// class is that of a failure.
	class error
}

// stateOf reads a Pod's status, in order of precedence:
//
//	being deleted                                   Deleting
//	Succeeded, Failed (evicted, out of resources)   Terminated: it does not come back
//	phase Unknown, or any new one, node lost        Unknown: it may still serve, and may come back
//	image trouble, crash loop                       Failed
//	ready, with an address                          Running
//	was up before and is not ready                  Unknown: the kubelet restarts it, or its node is away
//	anything else (unscheduled, pulling, starting)  Provisioning
//
// A Pod that has run must never look as if it was still being made: what is not made in time is taken away, and a short
// silence is no reason for that. An address is given out only while the Pod is ready, so one that a later Pod got is not.
func stateOf(pod *corev1.Pod) condition {
	status := &pod.Status
	if pod.DeletionTimestamp != nil {
		return condition{state: provider.StateDeleting, message: ofReason("", status.Reason, "")}
	}
	switch status.Phase {
	case corev1.PodSucceeded:
		return condition{state: provider.StateTerminated, message: "the proxy ended by itself"}
	case corev1.PodFailed:
		reason, message := status.Reason, status.Message
		if c := find(status, corev1.DisruptionTarget); reason == "" && c != nil && c.Status == corev1.ConditionTrue {
			reason, message = c.Reason, c.Message
		}
		return condition{state: provider.StateTerminated, message: ofReason("the Pod has failed", reason, message)}
	case corev1.PodPending, corev1.PodRunning, "":
	default:
		return condition{state: provider.StateUnknown, message: ofReason("the Pod's phase is "+string(status.Phase), status.Reason, status.Message)}
	}
	if status.Reason == "NodeLost" {
		return condition{state: provider.StateUnknown, message: ofReason("the Pod's node is lost", status.Reason, status.Message)}
	}
	squid := containerOf(status)
	if squid != nil && squid.State.Waiting != nil {
		if class := waiting(squid.State.Waiting.Reason); class != nil {
			return condition{state: provider.StateFailed, class: class, message: whyWaiting(squid)}
		}
	}
	ready := find(status, corev1.PodReady)
	switch {
	case ready != nil && ready.Status == corev1.ConditionTrue && status.PodIP != "" && portOf(pod) != 0:
		return condition{state: provider.StateRunning}
	case squid != nil && wasUp(squid):
		reason := ""
		if ready != nil {
			reason = ready.Reason
		}
		return condition{state: provider.StateUnknown, message: ofReason("the proxy was up and is not ready", reason, "")}
	}
	return condition{state: provider.StateProvisioning, message: whyNotYet(status, squid)}
}

// wasUp reports whether a container has been started and not found wanting, be it that it is just being restarted.
func wasUp(squid *corev1.ContainerStatus) bool {
	return squid.RestartCount > 0 || squid.Started != nil && *squid.Started ||
		squid.State.Terminated != nil || squid.LastTerminationState.Terminated != nil
}

// whyWaiting explains a container that does not come up.
func whyWaiting(squid *corev1.ContainerStatus) string {
	w := squid.State.Waiting
	last := squid.LastTerminationState.Terminated
	if w.Reason == "CrashLoopBackOff" && last != nil {
		// The kubelet's own message counts up.
		return ofReason(fmt.Sprintf("the proxy keeps ending, last with exit code %d", last.ExitCode), w.Reason, last.Reason)
	}
	return ofReason("", w.Reason, w.Message)
}

func whyNotYet(status *corev1.PodStatus, squid *corev1.ContainerStatus) string {
	if c := find(status, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return ofReason("no node takes the Pod", c.Reason, c.Message)
	}
	if squid != nil && squid.State.Waiting != nil {
		return ofReason("", squid.State.Waiting.Reason, squid.State.Waiting.Message)
	}
	return ""
}

// ofReason joins what there is of an explanation.
func ofReason(what, reason, detail string) string {
	var said []string
	for _, s := range []string{what, reason, detail} {
		if s != "" {
			said = append(said, s)
		}
	}
	return message.Clean(strings.Join(said, ": "))
}

func find(status *corev1.PodStatus, typ corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == typ {
			return &status.Conditions[i]
		}
	}
	return nil
}

// containerOf returns the status of Squid's container. Others may have been put beside it.
func containerOf(status *corev1.PodStatus) *corev1.ContainerStatus {
	for i := range status.ContainerStatuses {
		if status.ContainerStatuses[i].Name == container {
			return &status.ContainerStatuses[i]
		}
	}
	return nil
}
