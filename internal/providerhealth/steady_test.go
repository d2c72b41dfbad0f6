package providerhealth_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

// jitter answers with another latency and other details each time.
func jitter() *backend {
	b, n := &backend{}, 0
	b.does(func(context.Context) []provider.TargetStatus {
		n++
		a, c := up("a"), down("c", provider.CheckTimeout, "no answer")
		a.Latency, c.Latency = time.Duration(n)*time.Millisecond, time.Duration(n)*time.Second
		a.Details = map[string]string{"memoryFreeMiB": fmt.Sprint(n), fmt.Sprintf("only%d", n): "x"}
		return []provider.TargetStatus{a, c}
	})
	return b
}

func TestTheSteadyStateWritesNothingBetweenReports(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("kvm", "1", jitter())
	x.start(t.Context())
	first := x.shows("kvm", "False Timeout 1/2")
	x.settled()
	x.writer.take()
	x.events.take()
	for range 9 { // minutes
		x.round()
	}
	if got := x.get("kvm"); got.ResourceVersion != first.ResourceVersion || len(x.writer.take()) > 0 {
		t.Fatalf("it was written: %+v", got.Status)
	}
	x.round()
	report := x.get("kvm")
	if report.ResourceVersion == first.ResourceVersion || report.Status.Targets[0].LatencyMillis <= first.Status.Targets[0].LatencyMillis {
		t.Errorf("after the report interval: %+v", report.Status)
	}
	if now := metav1.NewTime(x.clock.Now()); !report.Status.CheckedTime.Equal(&now) {
		t.Errorf("checked at %s, now is %s", report.Status.CheckedTime, now)
	}
	before, after := condition(t, first, "Ready"), condition(t, report, "Ready")
	if !before.LastTransitionTime.Equal(&after.LastTransitionTime) || !report.Status.Targets[1].LastTransitionTime.Equal(&first.Status.Targets[1].LastTransitionTime) {
		t.Error("a report is no transition")
	}
	for range 9 {
		x.round()
	}
	if got := x.get("kvm"); got.ResourceVersion != report.ResourceVersion {
		t.Errorf("it was written again: %+v", got.Status)
	}
	if got := x.events.take(); len(got) > 0 {
		t.Errorf("events: %q", got)
	}
}

func TestAChangeIsWrittenInItsRound(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("a"), up("b"))
	x.entry("kvm", "1", b)
	x.start(t.Context())
	first := x.shows("kvm", "True TargetsReady 2/2")
	for _, step := range []struct {
		reason string
		b      provider.TargetStatus
		want   string
		moved  bool // lastTransitionTime of b
	}{
		{"not ready", down("b", provider.CheckTimeout, "x"), "False Timeout 1/2", true},
		{"another reason", down("b", provider.CheckForbidden, "x"), "False Forbidden 1/2", false},
		{"another message", down("b", provider.CheckForbidden, "y"), "False Forbidden 1/2", false},
		{"ready", up("b"), "True TargetsReady 2/2", true},
	} {
		b.answers(up("a"), step.b)
		before := x.get("kvm")
		x.round()
		after := x.shows("kvm", step.want)
		was, is := before.Status.Targets[1].LastTransitionTime, after.Status.Targets[1].LastTransitionTime
		if after.ResourceVersion == before.ResourceVersion || was.Equal(&is) == step.moved {
			t.Errorf("%s: since %s, before %s", step.reason, is, was)
		}
		if is := after.Status.Targets[0].LastTransitionTime; !is.Equal(&first.Status.Targets[0].LastTransitionTime) {
			t.Errorf("%s: the other target has changed: %s", step.reason, is)
		}
	}
}

func TestANewLeaderGoesOnWhereTheLastOneWas(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("kvm", "1", jitter())
	x.start(t.Context())
	first := x.shows("kvm", "False Timeout 1/2")
	x.settled()
	if got := x.events.take(); len(got) != 1 {
		t.Errorf("events: %q", got)
	}
	x.clock.Step(5 * time.Minute)
	x.restart()
	before := x.seen.counts()[x.name("kvm")]
	x.start(t.Context())
	x.until("it is checked again", func() bool { return x.seen.counts()[x.name("kvm")] > before })
	x.settled()
	if got := x.get("kvm"); got.ResourceVersion != first.ResourceVersion {
		t.Errorf("it was written: %+v", got.Status)
	}
	x.clock.Step(5 * time.Minute)
	x.until("it is reported", func() bool { return x.get("kvm").ResourceVersion != first.ResourceVersion })
	got := x.get("kvm")
	for i := range got.Status.Targets {
		if was, is := first.Status.Targets[i].LastTransitionTime, got.Status.Targets[i].LastTransitionTime; !was.Equal(&is) {
			t.Errorf("since %s, before %s", is, was)
		}
	}
	if got := x.events.take(); len(got) > 0 {
		t.Errorf("events: %q", got)
	}
}

func TestAClockThatWasSetBackIsNoReasonNotToReport(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("kvm", "1", newBackend(up("a")))
	x.start(t.Context())
	first := x.shows("kvm", "True TargetsReady 1/1")
	x.restart()
	x.clock.SetTime(x.clock.Now().Add(-time.Hour))
	x.start(t.Context())
	x.until("it is reported", func() bool { return x.get("kvm").ResourceVersion != first.ResourceVersion })
}

func TestOnlyTheLeaderChecks(t *testing.T) {
	t.Parallel()
	var r manager.LeaderElectionRunnable = newRig(t).m
	if !r.NeedLeaderElection() {
		t.Error("every replica would ask the backends")
	}
}

// What changed while the API server was away is written and told when it is back.
func TestAnAPIServerThatIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("a"))
	x.entry("cloud", "1", b)
	x.start(t.Context())
	x.shows("cloud", "True TargetsReady 1/1")
	x.settled()
	x.events.take()
	x.writer.tap(func(string, client.Object) error { return errors.New("no route to host") })
	b.answers(down("a", provider.CheckUnauthorized, "no"))
	x.round()
	x.round()
	if n := x.logs.count("cannot be written", "no route to host"); n != 1 {
		t.Errorf("said %d times:\n%s", n, x.logs)
	}
	if got := x.events.take(); len(got) > 0 {
		t.Errorf("events about what is not written: %q", got)
	}
	if got := x.seen.last(x.name("cloud")); len(got) != 1 || got[0].Ready || x.series.all()[x.name("cloud")+"/a"] {
		t.Errorf("gates and metrics wait for the API server: %+v", got)
	}
	x.writer.tap(nil)
	x.round()
	x.shows("cloud", "False Unauthorized 0/1")
	if got := x.events.take(); len(got) != 1 {
		t.Errorf("events: %q", got)
	}
	if n := x.logs.count("written again"); n != 1 {
		t.Errorf("log:\n%s", x.logs)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, err := providerhealth.New(providerhealth.Options{}); err == nil {
		t.Error("nothing is required")
	}
	for reason, change := range map[string]func(*providerhealth.Options){
		"a negative interval":    func(o *providerhealth.Options) { o.Interval = -1 },
		"a short report":         func(o *providerhealth.Options) { o.ReportInterval = time.Millisecond },
		"a short timeout":        func(o *providerhealth.Options) { o.Timeout = time.Millisecond },
		"no clock":               func(o *providerhealth.Options) { o.Clock = nil },
		"no owner":               func(o *providerhealth.Options) { o.Owner = provider.Owner{} },
		"nothing to read with":   func(o *providerhealth.Options) { o.Live = nil },
		"nothing to write with":  func(o *providerhealth.Options) { o.Client = nil },
		"nothing to ask for all": func(o *providerhealth.Options) { o.Providers = nil },
	} {
		x := newRig(t)
		o := providerhealth.Options{Providers: x.set, Live: x.client, Client: x.writer, Clock: x.clock, Owner: provider.Owner{Installation: "a", Cluster: "b"}}
		if _, err := providerhealth.New(o); err != nil {
			t.Fatal(err)
		}
		change(&o)
		if _, err := providerhealth.New(o); err == nil {
			t.Errorf("%s is taken", reason)
		}
	}
}

var _ client.Object = (*v1alpha1.ProviderHealth)(nil)
