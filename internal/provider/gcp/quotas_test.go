package gcp_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

func TestCheckShowsWhatQuotasLeave(t *testing.T) {
	w := newT(t, gcpemulator.Options{Quotas: map[string]float64{"CPUS": 24, "INSTANCES": 10, "IN_USE_ADDRESSES": 8}})
	w.extra = "regions: [us-central1, europe-west1, us-east99]\n"
	p := w.provider()
	w.create(p)
	details := func(in string) map[string]string {
		t.Helper()
		s := checked(t.Context(), t, p)
		if !s.Ready || !maps.Equal(s.Details, map[string]string{
			"quota/us-central1": in, "quota/europe-west1": "CPUS 24 of 24, INSTANCES 10 of 10, IN_USE_ADDRESSES 8 of 8",
			"quota/us-east99": "the project has no such region",
		}) {
			t.Errorf("the details are %v, want %s", s.Details, in)
		}
		return s.Details
	}
	details("CPUS 22 of 24, INSTANCES 9 of 10, IN_USE_ADDRESSES 7 of 8")
	w.create(p)
	w.advance(9 * time.Minute)
	details("CPUS 22 of 24, INSTANCES 9 of 10, IN_USE_ADDRESSES 7 of 8")
	if n := w.emulator.Calls("regions.list"); n != 1 {
		t.Errorf("quotas were read %d times", n)
	}
	w.advance(time.Minute)
	details("CPUS 20 of 24, INSTANCES 8 of 10, IN_USE_ADDRESSES 6 of 8")
	w.emulator.SetQuota("project-a", "us-central1", "CPUS", 2) // less than is in use
	w.advance(10 * time.Minute)
	details("CPUS 0 of 2, INSTANCES 8 of 10, IN_USE_ADDRESSES 6 of 8")
}

// To read quotas is a right that nobody needs, and that is not asked for again and again.
func TestQuotasAreNotNeeded(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.extra = "regions: [us-central1]\n"
	p := w.provider()
	remove := w.emulator.Inject(gcpemulator.On("regions.list"), gcpemulator.Fault{Status: 403})
	for range 10 {
		if s := checked(t.Context(), t, p); !s.Ready || len(s.Details) > 0 {
			t.Errorf("the check says %+v", s)
		}
		w.advance(time.Minute)
	}
	if n := w.emulator.Calls("regions.list"); n != 1 {
		t.Errorf("they were asked for %d times", n)
	}
	remove()
	if s := checked(t.Context(), t, p); len(s.Details) != 1 {
		t.Errorf("the check says %+v", s)
	}
}

func TestDetailsAreBounded(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	var regions []string
	for i := range 64 {
		regions = append(regions, fmt.Sprintf("us-east%d", 10+i))
	}
	w.extra = "regions: [" + strings.Join(regions, ", ") + "]\n"
	p := w.provider()
	s := checked(t.Context(), t, p)
	if got := slices.Sorted(maps.Keys(s.Details)); len(got) != 32 || got[0] != "quota/us-east10" || got[31] != "quota/us-east41" {
		t.Errorf("the details are %q", got)
	}
}
