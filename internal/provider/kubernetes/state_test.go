package kubernetes

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func TestStates(t *testing.T) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	unready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}
	waits := func(reason, message string, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: container, RestartCount: restarts, Started: ptr.To(false), State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		}}
	}
	runs := func(started bool, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: container, RestartCount: restarts, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	crashed := waits("CrashLoopBackOff", "back-off 5m0s restarting failed container=squid pod=x_y(6ba7b810-9dad-11d1-80b4-00c04fd430c8)", 7)
	crashed.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	with := func(phase corev1.PodPhase, c corev1.ContainerStatus, conditions ...corev1.PodCondition) corev1.PodStatus {
		return corev1.PodStatus{Phase: phase, PodIP: "10.1.0.1", ContainerStatuses: []corev1.ContainerStatus{c}, Conditions: conditions}
	}
	const (
		provisioning, unknown, failed, terminated = provider.StateProvisioning, provider.StateUnknown, provider.StateFailed, provider.StateTerminated
	)
	for _, tc := range []struct {
		reason  string
		status  corev1.PodStatus
		state   provider.State
		message string
		class   error
	}{
		{"just made", corev1.PodStatus{}, provisioning, "", nil},
		{"no node takes it", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient memory.",
		}}}, provisioning, "no node takes the Pod: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.", nil},
		{"being prepared", with(corev1.PodPending, waits("ContainerCreating", "", 0)), provisioning, "ContainerCreating", nil},
		{"a config error may be mended", with(corev1.PodPending, waits("CreateContainerConfigError", `secret "x" not found`, 0)), provisioning, `CreateContainerConfigError: secret "x" not found`, nil},
		{"starting", with(corev1.PodRunning, runs(false, 0), unready), provisioning, "", nil},
		{"serving", with(corev1.PodRunning, runs(true, 0), ready), provider.StateRunning, "", nil},
		{"serving after a restart", with(corev1.PodRunning, runs(true, 3), ready), provider.StateRunning, "", nil},
		{"ready without an address", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{ready}}, provisioning, "", nil},
		{"silent after it has served", with(corev1.PodRunning, runs(true, 0), unready), unknown, "the proxy was up and is not ready: ContainersNotReady", nil},
		{"restarting", with(corev1.PodRunning, runs(false, 1), unready), unknown, "the proxy was up and is not ready: ContainersNotReady", nil},
		{"between its end and its restart", with(corev1.PodRunning, corev1.ContainerStatus{Name: "squid", Started: ptr.To(false),
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}}, unready), unknown, "the proxy was up and is not ready: ContainersNotReady", nil},
		{"image cannot be pulled", with(corev1.PodPending, waits("ErrImagePull", "failed to resolve reference: unexpected status from GET request to https://r/token?account=me&sig=x: 401", 0)), failed,
			"ErrImagePull: failed to resolve reference: unexpected status from GET request to https://r/token 401", provider.ErrTransient},
		{"image is waited for", with(corev1.PodPending, waits("ImagePullBackOff", `Back-off pulling image "x"`, 0)), failed, `ImagePullBackOff: Back-off pulling image "x"`, provider.ErrTransient},
		{"image has no name", with(corev1.PodPending, waits("InvalidImageName", "couldn't parse image name", 0)), failed, "InvalidImageName: couldn't parse image name", provider.ErrPermanent},
		{"image is never pulled", with(corev1.PodPending, waits("ErrImageNeverPull", "", 0)), failed, "ErrImageNeverPull", provider.ErrPermanent},
		{"crash loop", with(corev1.PodRunning, crashed, unready), failed, "the proxy keeps ending, last with exit code 137: CrashLoopBackOff: OOMKilled", provider.ErrTransient},
		{"ended", corev1.PodStatus{Phase: corev1.PodSucceeded, PodIP: "10.1.0.1", Conditions: []corev1.PodCondition{ready}}, terminated, "the proxy ended by itself", nil},
		{"evicted", corev1.PodStatus{Phase: corev1.PodFailed, PodIP: "10.1.0.1", Reason: "Evicted", Message: "The node was low on resource: memory.", Conditions: []corev1.PodCondition{ready}},
			terminated, "the Pod has failed: Evicted: The node was low on resource: memory.", nil},
		{"refused by the kubelet", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"}, terminated, "the Pod has failed: OutOfcpu", nil},
		{"disrupted", corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler"}}},
			terminated, "the Pod has failed: PreemptionByScheduler", nil},
		{"about to be disrupted it still serves", with(corev1.PodRunning, runs(true, 0), ready, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}), provider.StateRunning, "", nil},
		{"unknown to the API server", corev1.PodStatus{Phase: corev1.PodUnknown, PodIP: "10.1.0.1", Conditions: []corev1.PodCondition{ready}}, unknown, "the Pod's phase is Unknown", nil},
		{"a phase of the future", corev1.PodStatus{Phase: "Hibernating", Conditions: []corev1.PodCondition{ready}, PodIP: "10.1.0.1"}, unknown, "the Pod's phase is Hibernating", nil},
		{"node lost", corev1.PodStatus{Phase: corev1.PodRunning, Reason: "NodeLost", PodIP: "10.1.0.1", Conditions: []corev1.PodCondition{ready}}, unknown, "the Pod's node is lost: NodeLost", nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			pod := &corev1.Pod{Status: tc.status}
			pod.Spec.Containers = []corev1.Container{{Name: container, Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: 3128}}}}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar"})
			inst := (&Provider{name: "x"}).ofPod(pod)
			if inst.State != tc.state || inst.Message != tc.message {
				t.Errorf("%s (%s), want %s (%s)", inst.State, inst.Message, tc.state, tc.message)
			}
			if (inst.IP != "") != (tc.state == provider.StateRunning) || (inst.Port != 0) != (tc.state == provider.StateRunning) {
				t.Errorf("%s with address %q, port %d", inst.State, inst.IP, inst.Port)
			}
			if tc.class != nil && !errors.Is(inst.Err, tc.class) || tc.class == nil && inst.Err != nil || inst.Left != (tc.state == failed) {
				t.Errorf("error %v, left %v", inst.Err, inst.Left)
			}
			pod.DeletionTimestamp = &metav1.Time{}
			if inst := (&Provider{}).ofPod(pod); inst.State != provider.StateDeleting || inst.IP != "" {
				t.Errorf("being deleted it is %s with address %q", inst.State, inst.IP)
			}
		})
	}
}
