package proxy

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what a process knows beyond the objects. Losing it costs a repeated call or a shorter wait, never an
// instance: whatever must survive is in the status.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
}

type entry struct {
	// uid is whose entry this is: a successor of the same name starts with an empty one.
	uid types.UID
	// answered is the creation to which this process got an answer, good or bad.
	answeredAttempt int64
	answeredAt      time.Time
	// polls counts looks in a row with the same sight.
	polls    int
	lastSeen sight
	// failedLate: the failure on record is of a creation that had been accepted.
	failedLate bool
	// notBefore is until when a backend has asked to be left alone.
	notBefore time.Time
	// refused counts busy passes in a row.
	refused int
	// failures counts errors in a row that leave no latch (observing, deleting), waitsUntil is the end of the last one's wait.
	failures   int
	waitsUntil time.Time
	// written is when this process last wrote the status, messageWritten when it last wrote messages alone.
	written, messageWritten time.Time
	// handedAttempt and handedRevision say which credentials this process gave to which instance.
	handedAttempt  int64
	handedRevision string
	// place is the provider entry of which this Proxy took a place for replacements that the fleet may not show yet; it counts
	// until placeUntil.
	place      string
	placeUntil time.Time
	// stoppedAttempt is the attempt whose instance is known to be stopped and to wait for its turn to be replaced.
	stoppedAttempt int64
	// reserved is the provider entry in which this Proxy takes a place.
	reserved string
	// toldGone is the attempt of which it was told that its instance is gone.
	toldGone int64
	// removal is nil while nothing is known of one, which is so of nearly all Proxies.
	removal *removal
	// stuckTold is when a message alone last said that the removal has come to be refused.
	stuckTold time.Time
}

// record names what an intent on record stands for.
type record struct{ attempt, requestedAt int64 }

// removal is how the removal of the instance of one record gets on.
type removal struct {
	of record
	// sent: the backend was asked to remove the instance, accepted: it said at last that it would.
	sent, accepted bool
	// failures counts deletions in a row that were refused, why is the last refusal, "" once one was accepted. The next one
	// waits for until, as long as the Proxy asks for the same.
	failures int
	why      string
	until    time.Time
	asked    string
	// worn: the instance was withdrawn for being Unhealthy, which nobody can tell of an instance without an address.
	worn bool
}

func (m *memory) with(key types.NamespacedName, f func(*entry)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		m.entries = map[types.NamespacedName]*entry{}
	}
	e := m.entries[key]
	if e == nil {
		e = &entry{}
		m.entries[key] = e
	}
	f(e)
}

// removal gives f what is known of the removal of the instance of that record.
func (m *memory) removal(key types.NamespacedName, of record, f func(*removal)) {
	m.with(key, func(e *entry) {
		known := removal{of: of}
		if e.removal != nil && e.removal.of == of {
			known = *e.removal
		}
		f(&known)
		if e.removal = &known; known == (removal{of: of}) {
			e.removal = nil
		}
	})
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// answer records that the creation {attempt, requestedAt} was answered.
func (m *memory) answer(key types.NamespacedName, attempt int64, requestedAt time.Time) {
	m.with(key, func(e *entry) { e.answeredAttempt, e.answeredAt = attempt, requestedAt })
}

// answered reports whether this process had an answer to the creation {attempt, requestedAt}.
func (m *memory) answered(key types.NamespacedName, attempt int64, requestedAt time.Time) (yes bool) {
	m.with(key, func(e *entry) { yes = e.answeredAttempt == attempt && e.answeredAt.Equal(requestedAt) })
	return yes
}

// hand records that the instance of attempt has the credentials of that revision.
func (m *memory) hand(key types.NamespacedName, attempt int64, revision string) {
	m.with(key, func(e *entry) { e.handedAttempt, e.handedRevision = attempt, revision })
}

// handed returns the revision of the credentials that this process gave to the instance of attempt, "" for none.
func (m *memory) handed(key types.NamespacedName, attempt int64) (revision string) {
	m.with(key, func(e *entry) {
		if e.handedAttempt == attempt {
			revision = e.handedRevision
		}
	})
	return revision
}

// looked returns how often in a row the same sight was seen before.
func (m *memory) looked(key types.NamespacedName, s sight) (n int) {
	m.with(key, func(e *entry) {
		e.refused = 0
		if e.lastSeen != s {
			e.lastSeen, e.polls = s, 0
		}
		n = e.polls
		e.polls++
	})
	return n
}

// rest records that the backend is to be left alone until then.
func (m *memory) rest(key types.NamespacedName, until time.Time) {
	m.with(key, func(e *entry) { e.notBefore = until })
}

// resting returns how long the backend is to be left alone.
func (m *memory) resting(key types.NamespacedName, now time.Time) (left time.Duration) {
	m.with(key, func(e *entry) { left = e.notBefore.Sub(now) })
	return left
}

// crowded counts a pass that found its target busy and returns how many there were before, in a row.
func (m *memory) crowded(key types.NamespacedName) (n int) {
	m.with(key, func(e *entry) { n = e.refused; e.refused++ })
	return n
}

// waitStopped records that the attempt's instance is stopped and waits for its turn.
func (m *memory) waitStopped(key types.NamespacedName, attempt int64) {
	m.with(key, func(e *entry) { e.stoppedAttempt = attempt })
}

// waitsStopped reports what waitStopped recorded.
func (m *memory) waitsStopped(key types.NamespacedName, attempt int64) (yes bool) {
	m.with(key, func(e *entry) { yes = e.stoppedAttempt == attempt })
	return yes
}

// failed returns how many errors came before this one, in a row. One that comes before the wait of the last is over does
// not count: somebody else's edit has brought the pass forward.
func (m *memory) failed(key types.NamespacedName, now time.Time) (n int) {
	m.with(key, func(e *entry) {
		if e.failures > 0 && now.Before(e.waitsUntil) {
			n = e.failures - 1
			return
		}
		n = e.failures
		e.failures++
	})
	return n
}

// waits records until when the next try after an error is put off.
func (m *memory) waits(key types.NamespacedName, until time.Time) {
	m.with(key, func(e *entry) { e.waitsUntil = until })
}

// claim drops what is known of another object of the same name.
func (m *memory) claim(key types.NamespacedName, uid types.UID) {
	m.with(key, func(e *entry) {
		if e.uid != uid {
			*e = entry{uid: uid}
		}
	})
}

// unreserve gives back the place in a provider entry.
func (m *memory) unreserve(key types.NamespacedName) { m.with(key, func(e *entry) { e.reserved = "" }) }

func (m *memory) succeeded(key types.NamespacedName) {
	m.with(key, func(e *entry) { e.failures = 0 })
}

// lastWrite returns when this process last wrote the status, or messages alone; the zero time for never.
func (m *memory) lastWrite(key types.NamespacedName, messages bool) (t time.Time) {
	m.with(key, func(e *entry) {
		t = e.written
		if messages {
			t = e.messageWritten
		}
	})
	return t
}

// reserve takes a place in a provider entry with room for limit Proxies, of which recorded (keys) are on record. It
// makes passes that run side by side see each other before their records do.
func (m *memory) reserve(key types.NamespacedName, name string, limit int, recorded []types.NamespacedName) bool {
	m.with(key, func(*entry) {})
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := map[types.NamespacedName]struct{}{}
	for _, k := range recorded {
		taken[k] = struct{}{}
	}
	for k, e := range m.entries {
		if e.reserved == name {
			taken[k] = struct{}{}
		}
	}
	delete(taken, key)
	if len(taken) >= limit {
		return false
	}
	m.entries[key].reserved = name
	return true
}

// takePlace takes a place for a replacement unless limit are taken: those that the fleet shows, and those that were taken
// a moment ago and that it does not show yet.
func (m *memory) takePlace(key types.NamespacedName, name string, limit, shown int, shows func(types.NamespacedName) bool, now time.Time) bool {
	m.with(key, func(*entry) {})
	m.mu.Lock()
	defer m.mu.Unlock()
	taken := shown
	for k, e := range m.entries {
		if k != key && e.place == name && now.Before(e.placeUntil) && !shows(k) {
			taken++
		}
	}
	if taken >= limit {
		return false
	}
	e := m.entries[key]
	e.place, e.placeUntil = name, now.Add(placeMemory)
	return true
}
