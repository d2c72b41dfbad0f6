package providerhealth_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	for reason, labels := range map[string]map[string]string{
		"another installation's": {v1alpha1.LabelInstallation: "another"},
		"without a label":        nil,
		"with an empty one":      {v1alpha1.LabelInstallation: ""},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			x := newRig(t)
			theirs := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: x.name("cloud"), Labels: labels}}
			unrelated := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: x.name("unrelated"), Labels: labels}}
			must(t, x.client.Create(t.Context(), theirs))
			must(t, x.client.Create(t.Context(), unrelated))
			b := newBackend(up("a"))
			x.entry("cloud", "1", b)
			x.start(t.Context())
			x.round()
			b.answers(down("a", provider.CheckTimeout, ""))
			x.round()
			x.round()
			if got := x.get("cloud"); got == nil || got.ResourceVersion != theirs.ResourceVersion {
				t.Errorf("it was touched: %+v", got)
			}
			if got := x.get("unrelated"); got == nil || got.ResourceVersion != unrelated.ResourceVersion {
				t.Errorf("it was touched: %+v", got)
			}
			lines := x.events.take()
			if len(lines) != 1 || !strings.HasPrefix(lines[0], "Warning NameConflict ") || !strings.Contains(lines[0], x.id) {
				t.Errorf("events: %q", lines)
			}
			if n := x.logs.count("WARNING: ", x.name("cloud"), x.id); n != 1 {
				t.Errorf("said %d times:\n%s", n, x.logs)
			}
			if got := x.series.all(); len(got) != 1 || x.seen.counts()[x.name("cloud")] < 3 {
				t.Errorf("checks did not go on: %v", got)
			}

			must(t, x.client.Delete(t.Context(), theirs))
			x.round()
			if obj := x.shows("cloud", "False Timeout 0/1"); obj.Labels[v1alpha1.LabelInstallation] != x.id {
				t.Errorf("labels: %v", obj.Labels)
			}
		})
	}
}

func TestTwoInstallationsWithOneName(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("cloud", "1", newBackend(up("a")))
	x.start(t.Context())
	rv := x.shows("cloud", "True TargetsReady 1/1").ResourceVersion
	y := newRig(t)
	y.entry("own", "1", newBackend(up("a")))
	h, _ := x.set.Lookup(x.name("cloud"))
	h.Provider = newBackend(down("a", provider.CheckTimeout, ""))
	y.set.put(h)
	y.start(t.Context())
	y.round()
	y.set.remove(h.Name)
	y.round()
	y.shows("own", "True TargetsReady 1/1")
	if got := x.get("cloud").ResourceVersion; got != rv {
		t.Error("the other installation touched it")
	}
}

// Between the look and the deletion somebody takes the object over.
func TestWhatHasChangedHandsIsNotDeleted(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("cloud", "1", newBackend(up("a")))
	x.start(t.Context())
	x.shows("cloud", "True TargetsReady 1/1")
	var tries atomic.Int32
	x.writer.tap(func(verb string, _ client.Object) error {
		if verb == "delete" && tries.Add(1) == 1 {
			obj := x.get("cloud")
			obj.Labels[v1alpha1.LabelInstallation] = "another"
			return x.client.Update(context.Background(), obj)
		}
		return nil
	})
	x.set.remove(x.name("cloud"))
	x.m.Refresh()
	x.until("it is to be deleted", func() bool { return tries.Load() > 0 })
	x.settled()
	x.settled()
	if x.get("cloud") == nil || tries.Load() != 1 {
		t.Errorf("after %d tries: %+v", tries.Load(), x.get("cloud"))
	}
}

// The registry is emptied when the operator stops.
func TestAnEmptiedRegistryAtTheEndDeletesNothing(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("cloud", "1", newBackend(up("a")))
	ctx, cancel := context.WithCancel(t.Context())
	x.start(ctx)
	x.shows("cloud", "True TargetsReady 1/1")
	x.writer.take()
	x.set.onAll = func() { cancel(); clear(x.set.entries) }
	x.m.Refresh()
	<-ctx.Done()
	x.stop()
	if got := x.writer.take(); x.get("cloud") == nil || len(got) > 0 {
		t.Errorf("the object is gone; writes: %q", got)
	}
}

func TestAConflictIsTriedAgainInTheSameRound(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("a"))
	x.entry("cloud", "1", b)
	x.start(t.Context())
	x.shows("cloud", "True TargetsReady 1/1")
	var tries atomic.Int32
	x.writer.tap(func(verb string, _ client.Object) error {
		if verb == "status" && tries.Add(1) == 1 {
			obj := x.get("cloud")
			obj.Annotations = map[string]string{"somebody": "was here"}
			return x.client.Update(context.Background(), obj)
		}
		return nil
	})
	b.answers(down("a", provider.CheckForbidden, "no"))
	x.round()
	obj := x.get("cloud")
	if obj.Status.Targets[0].Reason != provider.CheckForbidden || obj.Annotations["somebody"] == "" || tries.Load() != 2 {
		t.Errorf("after %d tries: %+v", tries.Load(), obj)
	}
	if n := x.logs.count("cannot be written"); n > 0 {
		t.Errorf("it was left to the next round:\n%s", x.logs)
	}
	if got := x.events.take(); len(got) != 2 || got[1] != "Warning TargetNotReady a: Forbidden: no" {
		t.Errorf("events: %q", got)
	}
}

// Somebody creates the object, or deletes it, between the look and the write.
func TestObjectsThatComeAndGoMeanwhile(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	var done atomic.Int32
	x.writer.tap(func(verb string, obj client.Object) error {
		switch {
		case verb == "create" && strings.HasSuffix(obj.GetName(), "-theirs") && done.CompareAndSwap(0, 1):
			return x.client.Create(context.Background(), &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}})
		case verb == "status" && strings.HasSuffix(obj.GetName(), "-gone") && done.CompareAndSwap(1, 2):
			return x.client.Delete(context.Background(), &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: obj.GetName()}})
		}
		return nil
	})
	x.entry("theirs", "1", newBackend(up("a")))
	x.start(t.Context())
	x.until("the conflict is seen", func() bool { return x.logs.count("WARNING: this object was made by no installation") == 1 })
	if obj := x.get("theirs"); len(obj.Status.Conditions) > 0 {
		t.Errorf("it was touched: %+v", obj)
	}
	x.entry("gone", "1", newBackend(up("a")))
	x.round()
	x.shows("gone", "True TargetsReady 1/1")
	if done.Load() != 2 {
		t.Error("it was never deleted")
	}
}

var _ providerhealth.Writer = (*writer)(nil)
