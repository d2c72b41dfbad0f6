package providerhealth_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

func TestAnEntryHasAnObject(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	ready := up("b")
	ready.Details = map[string]string{"version": "v1.37.2"}
	x.entry("cloud", "0123456789abcdef", newBackend(ready, down("a", provider.CheckUnauthorized, "the key was refused")))
	x.start(t.Context())
	obj := x.shows("cloud", "False Unauthorized 1/2")
	if obj.Labels[v1alpha1.LabelInstallation] != x.id {
		t.Errorf("labels: %v", obj.Labels)
	}
	now := metav1.NewTime(x.clock.Now())
	s := obj.Status
	if s.Type != "fake" || s.Revision != "0123456789abcdef" || !s.CheckedTime.Equal(&now) || s.TargetsReady != 1 || s.TargetsTotal != 2 || s.WorstTarget != "a" {
		t.Errorf("status: %+v", s)
	}
	if len(s.Targets) != 2 || s.Targets[0].Target != "a" || s.Targets[1].Target != "b" {
		t.Fatalf("targets: %+v", s.Targets)
	}
	a, b := s.Targets[0], s.Targets[1]
	if a.Ready || a.Reason != provider.CheckUnauthorized || a.Message != "the key was refused" || !a.LastTransitionTime.Equal(&now) {
		t.Errorf("a: %+v", a)
	}
	if !b.Ready || b.Reason != provider.CheckReachable || b.LatencyMillis != 12 || b.Details["version"] != "v1.37.2" {
		t.Errorf("b: %+v", b)
	}
	if c := condition(t, obj, v1alpha1.ConditionReady); c.Message != "1 of 2 targets is not ready: a: Unauthorized: the key was refused" {
		t.Errorf("condition: %+v", c)
	}
	if c := condition(t, obj, v1alpha1.ConditionConfigurationAccepted); c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonConfigurationAccepted {
		t.Errorf("condition: %+v", c)
	}
	if got := x.seen.last(x.name("cloud")); len(got) != 2 || got[0].Target != "a" || !got[1].Ready {
		t.Errorf("OnChecked was told %+v", got)
	}
}

func TestAnAddedEntryHasAnObjectWithinTheRoundOfTheRefresh(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.start(t.Context())
	x.entry("added", "1", newBackend(up("a")))
	x.m.Refresh()
	x.shows("added", "True TargetsReady 1/1")
}

func TestCheckersAreFoundBelowDecorators(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	name := x.name("decorated")
	x.set.put(registry.Handle{Name: name, Type: "fake", Revision: "1", Provider: instrument.WithTracing(newBackend(up("a")), name)})
	x.start(t.Context())
	x.shows("decorated", "True TargetsReady 1/1")
}

func TestWhatCannotBeCheckedHasNotFailed(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("mute", "1", struct{ provider.Provider }{})
	x.start(t.Context())
	obj := x.shows("mute", "Unknown CheckUnsupported 0/0")
	if obj.Status.CheckedTime != nil {
		t.Errorf("it was checked at %s", obj.Status.CheckedTime)
	}
	x.settled()
	if n := len(x.seen.counts()); n > 0 || len(x.series.all()) > 0 || len(x.events.take()) > 0 {
		t.Errorf("%d reports, series %v", n, x.series.all())
	}
	rv := obj.ResourceVersion
	x.clock.Step(time.Hour)
	x.settled()
	x.settled()
	if got := x.get("mute").ResourceVersion; got != rv {
		t.Error("it was written again although nothing changed")
	}
}

func TestAnEntryMayBecomeOneThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("changes", "1", newBackend(up("a")))
	x.start(t.Context())
	x.shows("changes", "True TargetsReady 1/1")
	x.entry("changes", "2", struct{ provider.Provider }{})
	x.m.Refresh()
	x.shows("changes", "Unknown CheckUnsupported 0/0")
	if got := x.series.all(); len(got) > 0 {
		t.Errorf("series: %v", got)
	}
	x.entry("changes", "3", newBackend(up("b")))
	x.m.Refresh()
	x.shows("changes", "True TargetsReady 1/1")
}

func TestRemovedEntriesLoseObjectAndSeries(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("stays", "1", newBackend(up("a")))
	x.entry("goes", "1", newBackend(up("a"), up("b")))
	x.start(t.Context())
	x.shows("goes", "True TargetsReady 2/2")
	x.shows("stays", "True TargetsReady 1/1")
	x.set.remove(x.name("goes"))
	x.m.Refresh()
	x.until("the object is gone", func() bool { return x.get("goes") == nil })
	x.settled()
	if x.get("stays") == nil {
		t.Error("the other entry lost its object, too")
	}
	if got := x.series.all(); len(got) != 1 || !got[x.name("stays")+"/a"] {
		t.Errorf("series: %v", got)
	}
}

// An object may be left from before a restart.
func TestObjectsOfEntriesThatWereRemovedMeanwhileAreDeleted(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("goes", "1", newBackend(up("a")))
	x.start(t.Context())
	x.shows("goes", "True TargetsReady 1/1")
	x.restart()
	x.set.remove(x.name("goes"))
	x.start(t.Context())
	x.until("the object is gone", func() bool { return x.get("goes") == nil })
}

func TestTargetsThatAreGoneLoseTheirSeries(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("a"), up("b"))
	x.entry("kvm", "1", b)
	x.start(t.Context())
	x.shows("kvm", "True TargetsReady 2/2")
	b.answers(up("b"), down("c", provider.CheckTimeout, ""))
	x.round()
	x.shows("kvm", "False Timeout 1/2")
	got := x.series.all()
	if _, there := got[x.name("kvm")+"/a"]; there || len(got) != 2 || !got[x.name("kvm")+"/b"] || got[x.name("kvm")+"/c"] {
		t.Errorf("series: %v", got)
	}
}

func TestThereIsAnObjectAgainAfterItWasDeletedByHand(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("cloud", "1", newBackend(up("a")))
	x.start(t.Context())
	obj := x.shows("cloud", "True TargetsReady 1/1")
	must(t, x.client.Delete(t.Context(), obj))
	x.round()
	if again := x.shows("cloud", "True TargetsReady 1/1"); again.UID == obj.UID {
		t.Error("it was not deleted")
	}
}

func TestAStatusThatWasEditedByHandIsCorrected(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("cloud", "1", newBackend(up("a")))
	x.start(t.Context())
	obj := x.shows("cloud", "True TargetsReady 1/1")
	obj.Annotations = map[string]string{"somebody": "was here"}
	must(t, x.client.Update(t.Context(), obj))
	obj.Status.Targets[0].Reason, obj.Status.Summary = "Edited", "9/9"
	must(t, x.client.Status().Update(t.Context(), obj))
	x.round()
	obj = x.shows("cloud", "True TargetsReady 1/1")
	if obj.Status.Targets[0].Reason != provider.CheckReachable || obj.Annotations["somebody"] == "" {
		t.Errorf("object: %+v", obj)
	}
}

func TestReportsAreSorted(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("c"), up("a"), up("b"))
	x.entry("kvm", "1", b)
	x.start(t.Context())
	rv := x.shows("kvm", "True TargetsReady 3/3").ResourceVersion
	b.answers(up("b"), up("c"), up("a"))
	x.round()
	obj := x.get("kvm")
	var names []string
	for _, target := range obj.Status.Targets {
		names = append(names, target.Target)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) || obj.ResourceVersion != rv {
		t.Errorf("targets %v, resourceVersion %s, was %s", names, obj.ResourceVersion, rv)
	}
}
