package node

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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

func TestTheFirstFailureEndsTheOtherSteps(t *testing.T) {
	var progress bytes.Buffer
	l := &Cluster{progress: &progress, began: time.Now()}
	failure := errors.New("broken")
	err := l.together(t.Context(), []step{
		{"patient", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		{"done", func(context.Context) error { return nil }},
		{"failing", func(context.Context) error { return failure }},
	})
	if !errors.Is(err, failure) || !strings.HasPrefix(err.Error(), "failing: ") {
		t.Errorf("got %v, want the first failure with its step's name", err)
	}
	if strings.Contains(progress.String(), "patient") {
		t.Errorf("progress tells of what was not done:\n%s", progress.String())
	}
}
