package eventlimit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/eventlimit"
)

const normal, warning = corev1.EventTypeNormal, corev1.EventTypeWarning

// sink counts what gets through, by type and reason, and what is said to be suppressed.
type sink struct {
	mu         sync.Mutex
	published  map[string]int
	suppressed map[string]int
	all, lost  int
}

// Eventf implements events.EventRecorder.
func (s *sink) Eventf(_, _ runtime.Object, eventtype, reason, _, _ string, _ ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all++
	s.published[eventtype+" "+reason]++
}

// Suppressed implements eventlimit.Metrics.
func (s *sink) Suppressed(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost++
	s.suppressed[kind]++
}

type rig struct {
	*eventlimit.Recorder
	*sink
	clock *clocktesting.FakePassiveClock
}

func newRig(limits eventlimit.Limits) *rig {
	s := &sink{published: map[string]int{}, suppressed: map[string]int{}}
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return &rig{eventlimit.New(s, eventlimit.Options{Clock: c, Limits: limits, Metrics: s}), s, c}
}

func (r *rig) pass(d time.Duration) { r.clock.SetTime(r.clock.Now().Add(d)) }

func (r *rig) tell(about runtime.Object, eventtype, reason string) {
	r.Recorder.Eventf(about, nil, eventtype, reason, "Reconcile", "%s", "note")
}

func proxyNamed(i int) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: types.UID(fmt.Sprint("uid-", i))}}
	p.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("Proxy"))
	return p
}

func health(name string) *v1alpha1.ProviderHealth {
	h := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: name}}
	h.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProviderHealth"))
	return h
}

func (r *rig) expect(t *testing.T, when string, want map[string]int) {
	t.Helper()
	for what, n := range want {
		if got := r.published[what]; got != n {
			t.Errorf("%s: %d of %q got through, want %d", when, got, what, n)
		}
	}
}

func TestAThousandThatFailAtOnceAreAHundredEvents(t *testing.T) {
	t.Parallel()
	r := newRig(eventlimit.Limits{})
	for i := range 1000 {
		r.tell(proxyNamed(i), warning, "NotReady")
	}
	r.expect(t, "at once", map[string]int{"Warning NotReady": 100})
	if r.suppressed[warning] != 900 {
		t.Errorf("%v suppressed", r.suppressed)
	}
	// What explains it gets through, although its reason's name may be the same.
	r.tell(health("cloud"), warning, "NotReady")
	r.tell(health("cloud"), warning, "OrphanBreakerOpen")
	r.tell(proxyNamed(7), warning, "PermanentError")
	r.expect(t, "after it", map[string]int{"Warning NotReady": 101, "Warning OrphanBreakerOpen": 1, "Warning PermanentError": 1})
	r.pass(10 * time.Second)
	for i := range 1000 {
		r.tell(proxyNamed(i), warning, "NotReady")
	}
	r.expect(t, "ten seconds later", map[string]int{"Warning NotReady": 101 + 50})
}

func TestAnObjectThatFlapsIsToldNowAndThen(t *testing.T) {
	t.Parallel()
	r := newRig(eventlimit.Limits{})
	for range 3600 {
		r.tell(proxyNamed(1), warning, "NotReady")
		r.tell(proxyNamed(1), normal, "Ready")
		r.pass(time.Second)
	}
	r.expect(t, "an hour of flapping", map[string]int{"Warning NotReady": 10 + 59, "Normal Ready": 10 + 59})
	r.tell(proxyNamed(1), warning, "QuotaExceeded")
	r.tell(proxyNamed(2), warning, "NotReady")
	r.expect(t, "another reason, and another object", map[string]int{"Warning QuotaExceeded": 1, "Warning NotReady": 10 + 59 + 1})
}

// Whose name is used again is another object.
func TestANewObjectStartsAnew(t *testing.T) {
	t.Parallel()
	r := newRig(eventlimit.Limits{})
	for range 20 {
		r.tell(proxyNamed(1), warning, "NotReady")
	}
	again := proxyNamed(1)
	again.UID = "another"
	r.tell(again, warning, "NotReady")
	r.expect(t, "with another UID", map[string]int{"Warning NotReady": 11})
}

func TestNormalGoesBeforeWarning(t *testing.T) {
	t.Parallel()
	l := eventlimit.Limits{
		Object: eventlimit.Rate{Burst: 100, Every: time.Second}, Reason: eventlimit.Rate{Burst: 100, Every: time.Second},
		Global: eventlimit.Rate{Burst: 10, Every: time.Second}, Reserve: 6,
	}
	r := newRig(l)
	for i := range 50 {
		r.tell(proxyNamed(i), normal, "Created")
	}
	for i := range 50 {
		r.tell(proxyNamed(i), warning, "NotReady")
	}
	r.expect(t, "both", map[string]int{"Normal Created": 4, "Warning NotReady": 6})
	if r.suppressed[normal] != 46 || r.suppressed[warning] != 44 {
		t.Errorf("suppressed: %v", r.suppressed)
	}
	r.pass(6 * time.Second)
	r.tell(proxyNamed(1), normal, "Created")
	r.expect(t, "with just the reserve", map[string]int{"Normal Created": 4})
	r.pass(time.Second)
	r.tell(proxyNamed(1), normal, "Created")
	r.expect(t, "with one more", map[string]int{"Normal Created": 5})
}

// What is dropped for want of one token takes none of the others: once there is room again an object's first word is not its
// last.
func TestWhatIsDroppedTakesNothing(t *testing.T) {
	t.Parallel()
	l := eventlimit.Defaults()
	l.Object = eventlimit.Rate{Burst: 1, Every: time.Hour}
	l.Global, l.Reserve = eventlimit.Rate{Burst: 1, Every: time.Second}, 0
	r := newRig(l)
	r.tell(proxyNamed(1), warning, "NotReady")
	for range 500 {
		r.tell(proxyNamed(2), warning, "NotReady")
	}
	r.expect(t, "no room", map[string]int{"Warning NotReady": 1})
	r.pass(time.Second)
	r.tell(proxyNamed(2), warning, "NotReady")
	r.expect(t, "room", map[string]int{"Warning NotReady": 2})
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(eventlimit.Limits{})
	most := 0
	for i := range 200_000 {
		r.tell(proxyNamed(i), warning, fmt.Sprint("Reason", i%50))
		r.pass(20 * time.Millisecond)
		most = max(most, r.Kept())
	}
	// An object's bucket that one token was taken from is full after a minute, in which 600 Events get through.
	if l := 2*(600+300) + 100; most > l {
		t.Errorf("%d buckets are kept, want at most %d", most, l)
	}
	if r.all < 40_000 {
		t.Errorf("%d got through", r.all)
	}
}

func TestAClockSetBackSilencesNobodyForLong(t *testing.T) {
	t.Parallel()
	r := newRig(eventlimit.Limits{})
	for range 20 {
		r.tell(proxyNamed(1), warning, "NotReady")
	}
	r.pass(-24 * time.Hour)
	r.tell(proxyNamed(1), warning, "NotReady")
	r.expect(t, "set back", map[string]int{"Warning NotReady": 10})
	r.pass(time.Minute)
	r.tell(proxyNamed(1), warning, "NotReady")
	r.expect(t, "a minute on", map[string]int{"Warning NotReady": 11})
}

func TestManyAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := newRig(eventlimit.Limits{})
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			for i := range 200 {
				r.tell(proxyNamed(g*200+i), warning, "NotReady")
				r.tell(nil, "", "")
			}
		})
	}
	group.Wait()
	r.expect(t, "side by side", map[string]int{"Warning NotReady": 100, " ": 10})
	if r.all+r.lost != 16*200*2 || r.suppressed[normal] != 16*200-10 {
		t.Errorf("%d got through and %d did not: %v", r.all, r.lost, r.suppressed)
	}
}

// Whatever happens when: no more gets through than the limits say, and nobody's first word is dropped while there is room.
func TestNoMoreThanTheLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rate := func(name string) eventlimit.Rate {
			return eventlimit.Rate{Burst: rapid.IntRange(1, 5).Draw(rt, name), Every: time.Duration(rapid.IntRange(1, 5).Draw(rt, name)) * time.Second}
		}
		l := eventlimit.Limits{Object: rate("object"), Reason: rate("reason"), Global: rate("global")}
		l.Reserve = rapid.IntRange(0, l.Global.Burst).Draw(rt, "reserve")
		r := newRig(l)
		began, byObject := r.clock.Now(), map[string]int{}
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			r.pass(time.Duration(rapid.IntRange(0, 2000).Draw(rt, "ms")) * time.Millisecond)
			object, reason := rapid.IntRange(0, 2).Draw(rt, "object"), rapid.SampledFrom([]string{"A", "B"}).Draw(rt, "reason")
			kind := rapid.SampledFrom([]string{normal, warning}).Draw(rt, "kind")
			key, before := fmt.Sprint(object, reason, kind), r.all
			r.tell(proxyNamed(object), kind, reason)
			byObject[key] += r.all - before
			if byObject[key] == 0 && kind == warning && r.all == 0 {
				rt.Fatal("the first Warning of all is dropped")
			}
			most := func(rate eventlimit.Rate) int { return rate.Burst + int(r.clock.Since(began)/rate.Every) }
			if r.all > most(l.Global) || r.published[kind+" "+reason] > most(l.Reason) || byObject[key] > most(l.Object) {
				rt.Fatalf("%d in all, %d of the reason, %d of the object; limits %+v after %s", r.all, r.published[kind+" "+reason], byObject[key], l, r.clock.Since(began))
			}
		}
	})
}
