package gcp_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func (w *world) sent() (n int) {
	for call := range maps.Values(w.emulator.AllCalls()) {
		n += call
	}
	return n
}

// A thousand instances in the steady state cost at most five calls a minute: the lists of disks and VMs, two pages each, and
// what is left for checks, quotas, a firewall rule and the collector.
func TestTheSteadyStateIsCheap(t *testing.T) {
	const instances, minutes, phase = 1000, 30, 50 * time.Second
	w := newT(t, gcpemulator.Options{})
	w.extra, w.firewall = "regions: [us-central1]\n", managed
	p := w.provider()
	ref, _ := w.create(p)
	w.fill(instances - 1)
	minute := func(collects bool) (calls int) {
		before := w.sent()
		l, err := p.ListByTag(t.Context())
		must(w.t, err)
		if collects {
			_, err = p.ListByTag(t.Context())
			must(w.t, err)
		}
		w.advance(phase) // checks are made between lists
		if s := p.Check(t.Context()); !s[0].Ready || len(l.Instances) != instances {
			t.Fatalf("%d listed, the check says %+v", len(l.Instances), s)
		}
		w.advance(time.Minute - phase)
		return w.sent() - before
	}
	minute(false) // what a process that has just started finds out
	minute(false)
	var all int
	var each []int
	for i := range minutes {
		each = append(each, minute(i%10 == 9))
		all += each[i]
	}
	if all > 5*minutes {
		t.Errorf("%d calls in %d minutes: %v", all, minutes, each)
	}
	slices.Sort(each)
	if median := each[minutes/2]; median > 4 {
		t.Errorf("%d calls in most minutes: %v", median, each)
	}
	w.expect(t, "in the end", p, ref, "Running")
}

// A check relies on a list only while nothing has failed since.
func TestChecksAskAgainOnceSomethingFails(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	p := w.provider()
	ref, _ := w.create(p)
	probes := func() int {
		n := w.emulator.Calls("disks.aggregatedList")
		p.Check(t.Context())
		return w.emulator.Calls("disks.aggregatedList") - n
	}
	list := func() {
		_, err := p.ListByTag(t.Context())
		must(w.t, err)
	}
	if probes() != 1 {
		t.Error("the first check has not asked")
	}
	list()
	if s := p.Check(t.Context()); probes() != 0 || s[0].Latency <= 0 || s[0].Reason != provider.CheckReachable {
		t.Errorf("after a list the check has asked, or says %+v", s)
	}
	w.advance(89 * time.Second)
	if probes() != 0 {
		t.Error("after a minute and a half it has asked")
	}
	w.advance(time.Second)
	if probes() != 1 {
		t.Error("later it has not")
	}
	list()
	w.emulator.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 401})
	_, err := p.Get(t.Context(), ref)
	expect(t, "Get", err, provider.ErrDenied, "")
	if probes() != 1 {
		t.Error("after a failure it has not asked")
	}
	list()
	w.emulator.Inject(gcpemulator.On("disks.aggregatedList"), gcpemulator.Fault{Status: 503})
	if _, err := p.ListByTag(t.Context()); err == nil {
		t.Error("the list has not failed")
	}
	if probes() != 1 {
		t.Error("after a list that failed it has not asked")
	}
}
