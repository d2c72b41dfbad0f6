package eventlimit

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
)

// Metrics counts what is not published. It must not block.
type Metrics interface {
	// Suppressed is called for each Event that is dropped; kind is Normal or Warning.
	Suppressed(kind string)
}

// Limits are how many Events get through.
type Limits struct {
	// Object is for one reason of one object, Reason for one reason of all objects of a kind, Global for everything.
	Object, Reason, Global Rate
	// Reserve is how many tokens of Global are kept for Warnings; 0 to Global.Burst.
	Reserve int
}

// Defaults are the operator's own limits. A thousand Proxies that fail at once are a hundred Events and then five a second;
// ten a second, or twice as many requests, is the most that an API server sees for long.
func Defaults() Limits {
	return Limits{
		Object:  Rate{Burst: 10, Every: time.Minute},
		Reason:  Rate{Burst: 100, Every: 200 * time.Millisecond},
		Global:  Rate{Burst: 300, Every: 100 * time.Millisecond},
		Reserve: 150,
	}
}

// Options of a Recorder. Clock is required.
type Options struct {
	Clock clock.PassiveClock
	// Limits is Defaults() when zero. Every burst and every interval in it has to be positive.
	Limits Limits
	// Metrics may be nil.
	Metrics Metrics
}

// Recorder is an events.EventRecorder that passes on to another one what the limits let through. It is safe for concurrent
// use, needs no goroutine, and blocks for no longer than the other one does.
type Recorder struct {
	next events.EventRecorder
	o    Options

	mu      sync.Mutex
	time    stopwatch
	objects *buckets[subject]
	reasons *buckets[class]
	global  *buckets[struct{}]
}

// class is what Events of a kind of objects have in common.
type class struct{ of, kind, reason string }

// subject is a class of one object.
type subject struct {
	class
	namespace, name string
	uid             types.UID
}

// New returns a Recorder in front of next. All who publish are to share one, or the limits are each one's own.
func New(next events.EventRecorder, o Options) *Recorder {
	if o.Limits == (Limits{}) {
		o.Limits = Defaults()
	}
	return &Recorder{
		next: next, o: o, objects: newBuckets[subject](o.Limits.Object), reasons: newBuckets[class](o.Limits.Reason),
		global: newBuckets[struct{}](o.Limits.Global),
	}
}

// Eventf implements events.EventRecorder. What is over a limit is dropped without a trace but in Metrics.
func (r *Recorder) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	if r.admits(subjectOf(regarding, eventtype, reason)) {
		r.next.Eventf(regarding, related, eventtype, reason, action, note, args...)
		return
	}
	if r.o.Metrics == nil {
		return
	}
	if eventtype != corev1.EventTypeWarning {
		eventtype = corev1.EventTypeNormal // nothing else becomes a label
	}
	r.o.Metrics.Suppressed(eventtype)
}

// admits takes a token of each bucket if none is empty.
func (r *Recorder) admits(s subject) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.time.at(r.o.Clock.Now())
	least := 1
	if s.kind != corev1.EventTypeWarning {
		least += r.o.Limits.Reserve
	}
	if !r.objects.have(s, 1, now) || !r.reasons.have(s.class, 1, now) || !r.global.have(struct{}{}, least, now) {
		return false
	}
	r.objects.take(s, now)
	r.reasons.take(s.class, now)
	r.global.take(struct{}{}, now)
	return true
}

func subjectOf(regarding runtime.Object, eventtype, reason string) subject {
	s := subject{class: class{kind: eventtype, reason: reason}}
	if regarding == nil {
		return s
	}
	s.of = regarding.GetObjectKind().GroupVersionKind().Kind
	if about, err := meta.Accessor(regarding); err == nil {
		s.namespace, s.name, s.uid = about.GetNamespace(), about.GetName(), about.GetUID()
	}
	return s
}

var _ events.EventRecorder = (*Recorder)(nil)
