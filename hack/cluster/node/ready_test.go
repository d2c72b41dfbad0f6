package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSchedulable(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	notReady := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "no network"}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady}
	for _, c := range []struct {
		reason, want string
		node         corev1.Node
	}{
		{"ready", "", corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, ready}}}},
		{"not ready", "no network", corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{notReady}}}},
		{"no word yet", "does not say", corev1.Node{}},
		{"ready but tainted still", "taint", corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready}}}},
	} {
		err := schedulable(&c.node)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.reason, err, c.want)
		}
	}
}
