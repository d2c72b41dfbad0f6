package kubernetes_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// TestWithoutItsMarksAPodIsGone: nobody may use what the operator no longer knows as its own. It is back with its marks.
func TestWithoutItsMarksAPodIsGone(t *testing.T) {
	w := newT(t)
	p := w.provider()
	ref, _ := w.created(p, w.guarded())
	pod := w.pod(ref.ID)
	l := w.listen(t, p)
	before := l.hears("at first", ref.ID, is(provider.StateRunning)).Instance
	patch := func(body string, args ...any) {
		t.Helper()
		_, err := w.kube.CoreV1().Pods(w.namespace).Patch(t.Context(), pod.Name, types.MergePatchType, fmt.Appendf(nil, body, args...), metav1.PatchOptions{})
		must(w.t, err)
	}
	for _, tc := range []struct {
		kind, key string
		value     string
	}{
		{"labels", provider.LabelManaged, "null"},
		{"labels", provider.LabelInstallation, `"another"`},
		{"labels", provider.LabelCluster, `"another"`},
		{"labels", provider.LabelAttempt, `"first"`},
		{"labels", provider.LabelUID, "null"},
		{"annotations", provider.LabelName, "null"},
	} {
		was := pod.Labels[tc.key]
		if tc.kind == "annotations" {
			was = pod.Annotations[tc.key]
		}
		what := tc.key + " is " + tc.value
		patch(`{"metadata":{%q:{%q:%s}}}`, tc.kind, tc.key, tc.value)
		if got := l.hears(what, ref.ID, isGone).Instance; got.Marks != before.Marks || got.Identity != before.Identity {
			t.Errorf("%s: gone is %+v, want %+v", what, got, before)
		}
		patch(`{"metadata":{%q:{%q:%q}}}`, tc.kind, tc.key, was)
		if got := l.hears(what+" no longer", ref.ID, is(provider.StateRunning)).Instance; got != before {
			t.Errorf("%s: back is %+v, want %+v", what, got, before)
		}
	}
}

// TestForeignPodsAreNotTold, be they of another installation or dressed up as of this one.
func TestForeignPodsAreNotTold(t *testing.T) {
	w := newT(t)
	p := w.provider()
	l := w.listen(t, p)
	first, _ := w.created(p, w.guarded())
	l.hears("own", first.ID, is(provider.StateRunning))
	pod := w.pod(first.ID)
	w.remake(pod, func(p *corev1.Pod) { p.Name = "somebody-elses-name" })
	w.remake(pod, func(p *corev1.Pod) { p.Name, p.Annotations = provider.NameFromUID("x"), nil })
	w.remake(bare("bare"))
	other := w.providerOf("other", provider.Owner{Installation: "other", Cluster: owner.Cluster})
	foreign, _ := w.created(other, w.guarded())
	must(w.t, other.Delete(t.Context(), foreign))
	last, _ := w.created(p, w.guarded())
	l.hears("own", last.ID, is(provider.StateRunning)) // and whatever happened before it has been told or left out
	heard := l.all()
	_, through := w.wire.cuttable(watchesIn(w.namespace))
	l = w.listen(t, p)
	await(t, "the watch after the list", through)
	for _, c := range append(heard, l.all()...) {
		if c.Instance.ID != first.ID && c.Instance.ID != last.ID {
			t.Errorf("told was %+v", c)
		}
	}
}
