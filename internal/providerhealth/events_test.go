package providerhealth_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/reference"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// atomicString is a string that may change meanwhile.
type atomicString struct {
	mu sync.Mutex
	s  string
}

func (a *atomicString) store(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.s = s
}

func (a *atomicString) load() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.s
}

func TestTransitionsAreEvents(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	many := func(s func(string) provider.TargetStatus, n int) (out []provider.TargetStatus) {
		for i, name := range hosts(50) {
			if i < n {
				out = append(out, s(name))
			} else {
				out = append(out, up(name))
			}
		}
		return out
	}
	silent := func(name string) provider.TargetStatus { return down(name, provider.CheckTimeout, "no answer") }
	denied := func(name string) provider.TargetStatus { return down(name, provider.CheckForbidden, "") }
	b := newBackend(many(up, 50)...)
	x.entry("kvm", "1", b)
	x.start(t.Context())
	x.shows("kvm", "True TargetsReady 50/50")
	for _, step := range []struct {
		reason   string
		statuses []provider.TargetStatus
		want     []string
	}{
		{"at first", many(up, 50), []string{"Normal Ready all 50 targets are ready"}},
		{"nothing", many(up, 50), nil},
		{"two fail", many(silent, 2), []string{
			"Warning TargetNotReady host-000: Timeout: no answer", "Warning TargetNotReady host-001: Timeout: no answer",
		}},
		{"they still do", many(silent, 2), nil},
		{"for another reason", many(denied, 2), []string{
			"Warning TargetNotReady host-000: Forbidden", "Warning TargetNotReady host-001: Forbidden",
		}},
		{"one is back", many(denied, 1), []string{"Normal TargetReady host-001 is ready again"}},
		{"all are back", many(up, 50), []string{"Normal Ready all 50 targets are ready"}},
		{"twenty fail at once", many(silent, 20), []string{
			"Warning TargetsNotReady 20 of 50 targets are not ready: Timeout (20): host-000, host-001, host-002, host-003, host-004 and 15 more",
		}},
		{"most are back at once", many(silent, 1), []string{
			"Normal TargetsReady 19 of 50 targets are ready again: host-001, host-002, host-003, host-004, host-005 and 14 more",
		}},
	} {
		b.answers(step.statuses...)
		x.round()
		x.until("as many events", func() bool { return x.events.count() >= len(step.want) })
		if got := x.events.take(); !slices.Equal(got, step.want) {
			t.Errorf("%s: events %q, want %q", step.reason, got, step.want)
		}
	}
	ref, err := reference.GetReference(runtime.NewScheme(), x.events.about[0])
	must(t, err)
	if ref.Kind != "ProviderHealth" || ref.Name != x.name("kvm") || ref.UID != x.get("kvm").UID || ref.ResourceVersion != "" {
		t.Errorf("the Event is about %+v", ref)
	}
	if n := x.logs.count("host-001 is ready again"); n != 1 {
		t.Errorf("log:\n%s", x.logs)
	}
}

// Entries fail together when the network does.
func TestEventsOfARoundAreBounded(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	var backends []*backend
	for i := range 20 {
		b := newBackend(up("a"), up("b"), up("c"), up("d"))
		backends = append(backends, b)
		x.entry(fmt.Sprintf("e%02d", i), "1", b)
	}
	x.start(t.Context())
	for i := range 20 {
		x.shows(fmt.Sprintf("e%02d", i), "True TargetsReady 4/4")
	}
	x.settled()
	x.events.take()
	for _, b := range backends {
		b.answers(down("a", "Timeout", ""), down("b", "Timeout", ""), down("c", "Timeout", ""), down("d", "Timeout", ""))
	}
	x.round()
	got := x.events.take()
	singles := 0
	for _, line := range got {
		if strings.HasPrefix(line, "Warning TargetNotReady ") {
			singles++
		}
	}
	if singles != 20 || len(got) != 20+15 {
		t.Errorf("%d events, %d of them about single targets: %q", len(got), singles, got)
	}
}
