package providerhealth_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/internal/providerhealth"
)

const password = "correct-horse-battery"

// everywhere is all that people get to see of an entry.
func everywhere(x *rig, entry string) string {
	return fmt.Sprintf("%+v %v %q %+v %s", x.get(entry), x.series.all(), x.events.take(), x.seen.last(x.name(entry)), x.logs)
}

func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	x := newRig(t, func(_ *rig, o *providerhealth.Options) {
		o.Secrets = message.NewSecrets([]string{password}, nil)
		o.ConfigProblem = func(string) string { return "line 3: " + password }
	})
	a := down("a", provider.CheckUnauthorized, "the password "+password+" was refused")
	a.Details = map[string]string{"user": password, password: "x"}
	x.entry("cloud", "1", newBackend(a,
		down("b", provider.CheckUnreachable, `Get "https://user:hunter2@registry/v2/?X-Amz-Signature=abcdef0123": Authorization: Bearer eyJhbGciOi.abc.def`),
		down("c", "Bad\nreason "+password, strings.Repeat("x", 505)+password)))
	x.start(t.Context())
	x.shows("cloud", "False TargetsNotReady 0/3")
	x.round()
	text := everywhere(x, "cloud")
	for _, secret := range []string{password, password[:7], "hunter2", "abcdef0123", "eyJhbGciOi"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q shows in\n%s", secret, text)
		}
	}
	if !strings.Contains(text, "was refused") {
		t.Errorf("nothing is left of the message:\n%s", text)
	}
}

// A Checker that keeps to no bound does not cost the entry its object: the API server takes it all.
func TestEverythingIsWithinTheBoundsOfTheAPI(t *testing.T) {
	t.Parallel()
	x := newRig(t, func(_ *rig, o *providerhealth.Options) { o.Timeout = 2 * within }) // to clean it all takes a while
	var wild []provider.TargetStatus
	details := map[string]string{}
	for i := range 40 {
		details[fmt.Sprintf("%03d%s", i, strings.Repeat("ä", 200))] = strings.Repeat("€\xff", 2000)
	}
	for i := range 700 {
		s := provider.TargetStatus{Target: fmt.Sprintf("h%03d", 699-i), Ready: i%2 == 0, Reason: provider.CheckReachable, Latency: -time.Second}
		if i < 4 {
			s.Details = details
		}
		switch {
		case i%10 == 1 && i < 200:
			s.Target = strings.Repeat("ü\n", 500) + s.Target // all the same, once they are cut
		case i%10 == 3 && i < 100:
			s.Reason, s.Message = "no reason\x00", strings.Repeat("x€\xff", 5000)
		case i%10 == 5:
			s.Target, s.Reason = "", strings.Repeat("A", 100)
		case !s.Ready:
			s.Reason = provider.CheckTimeout
		}
		wild = append(wild, s)
	}
	x.entry("kvm", "1", newBackend(wild...))
	x.start(t.Context())
	x.until("there is an object", func() bool { obj := x.get("kvm"); return obj != nil && len(obj.Status.Conditions) > 0 })
	obj := x.get("kvm")
	s := obj.Status
	// 700 less the 20 and the 70 of which one is left each.
	if s.TargetsTotal != 612 || s.TargetsReady != 350 || s.TargetsOmitted != 100 || len(s.Targets) != 512 || s.Summary != "350/612" {
		t.Errorf("%d targets, %d ready, %d omitted, %d shown, %s", s.TargetsTotal, s.TargetsReady, s.TargetsOmitted, len(s.Targets), s.Summary)
	}
	size, notReady := 0, 0
	for i, target := range s.Targets {
		if i > 0 && s.Targets[i-1].Target >= target.Target {
			t.Fatalf("not sorted: %q before %q", s.Targets[i-1].Target, target.Target)
		}
		if !target.Ready {
			notReady++
		}
		if !utf8.ValidString(target.Message) || target.LatencyMillis < 0 || len(target.Details) > 32 {
			t.Errorf("target: %+v", target)
		}
		size += len(target.Details)
	}
	if notReady != 262 {
		t.Errorf("%d targets that are not ready are shown, want all 262", notReady)
	}
	if size == 0 {
		t.Error("no details")
	}
	rv := obj.ResourceVersion
	x.round()
	if x.get("kvm").ResourceVersion != rv {
		t.Error("it is written although nothing changed")
	}
}

func TestOfTwoTargetsWithOneNameTheWorseCounts(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("kvm", "1", newBackend(up("a"), down("a", provider.CheckTimeout, ""), up("a")))
	x.start(t.Context())
	x.shows("kvm", "False Timeout 0/1")
}

func TestNoTargetsAreNoAnswer(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	x.entry("kvm", "1", newBackend())
	x.set.put(registry.Handle{Name: x.name("empty"), Provider: struct {
		provider.Provider
		provider.Checker
	}{Checker: newBackend()}})
	x.start(t.Context())
	x.shows("empty", "Unknown NoTargets 0/0")
}

// The guard knows targets by their names, whatever they look like.
func TestNamesOfTargetsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	names := []string{"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "7ba7b810-9dad-11d1-80b4-00c04fd430c8", "example.com:project", "hosts/a?b=c"}
	statuses := make([]provider.TargetStatus, 0, len(names))
	for _, n := range names {
		statuses = append(statuses, up(n))
	}
	x.entry("cloud", "1", newBackend(statuses...))
	x.start(t.Context())
	x.shows("cloud", "True TargetsReady 4/4")
	for i, s := range x.seen.last(x.name("cloud")) {
		if s.Target != names[i] {
			t.Errorf("%q became %q", names[i], s.Target)
		}
	}
}

func TestWorstIsWhatHasBeenOutOfOrderForLongest(t *testing.T) {
	t.Parallel()
	x := newRig(t)
	b := newBackend(up("a"), down("z", provider.CheckTimeout, ""))
	x.entry("kvm", "1", b)
	x.start(t.Context())
	x.shows("kvm", "False Timeout 1/2")
	b.answers(down("a", provider.CheckTimeout, ""), down("z", provider.CheckTimeout, ""))
	x.round()
	if obj := x.shows("kvm", "False Timeout 0/2"); obj.Status.WorstTarget != "z" {
		t.Errorf("worst is %q", obj.Status.WorstTarget)
	}
}

// The text of a problem decides on the reason, and changes of it are shown although the entry's check hangs.
func TestProblemsOfTheConfigurationAreShown(t *testing.T) {
	t.Parallel()
	var problem atomicString
	x := newRig(t, func(x *rig, o *providerhealth.Options) {
		o.ConfigProblem = func(entry string) string {
			if entry != x.name("cloud") {
				return ""
			}
			return problem.load()
		}
		o.Timeout = time.Hour // for the check that hangs
	})
	b := newBackend(up("a"))
	x.entry("cloud", "1", b)
	x.entry("other", "1", newBackend(up("a")))
	x.start(t.Context())
	x.shows("cloud", "True TargetsReady 1/1")
	x.shows("other", "True TargetsReady 1/1")
	x.settled()
	x.events.take()
	hanging := make(chan struct{}, 1)
	b.does(func(ctx context.Context) []provider.TargetStatus {
		hanging <- struct{}{} // this check lasts as long as the test
		<-ctx.Done()
		return []provider.TargetStatus{up("a")}
	})
	x.m.Refresh()
	<-hanging
	for _, step := range []struct{ problem, status, reason, message, event string }{
		{"line 7: unknown key", "False", "InvalidConfiguration", "line 7: unknown key", "Warning ConfigurationRefused InvalidConfiguration: line 7: unknown key"},
		{"InUse: 3 instances are in project p", "False", "InUse", "3 instances are in project p", "Warning ConfigurationRefused InUse: 3 instances are in project p"},
		{"", "True", "Accepted", "the configuration file's content is in use", "Normal ConfigurationAccepted the configuration file's content is in use"},
	} {
		problem.store(step.problem)
		x.m.Refresh()
		x.until(step.event, func() bool {
			c := condition(t, x.get("cloud"), v1alpha1.ConditionConfigurationAccepted)
			return c.Status == metav1.ConditionStatus(step.status) && c.Reason == step.reason && c.Message == step.message
		})
		x.barrier()
		if got := x.events.take(); len(got) != 1 || got[0] != step.event {
			t.Errorf("events: %q, want %q", got, step.event)
		}
	}
	obj := x.get("cloud")
	if c := condition(t, obj, v1alpha1.ConditionReady); c.Status != metav1.ConditionTrue {
		t.Errorf("Ready: %+v", c)
	}
	if c := condition(t, x.get("other"), v1alpha1.ConditionConfigurationAccepted); c.Status != metav1.ConditionTrue {
		t.Errorf("the other entry: %+v", c)
	}
}
