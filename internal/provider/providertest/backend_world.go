package providertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Leftover is something that a creation made, or a hand placed, and that has not been removed.
type Leftover struct {
	ID       string
	Identity string
	// Marks are zero where the labels are not those of an operator.
	Marks provider.Marks
	// Parts are instance and disk, as far as they exist.
	Parts []string
	// Pending: accepted, but not visible to any call yet.
	Pending bool
	// Deleting: a deletion is in flight.
	Deleting bool
}

// String names the leftover in a test's message.
func (l Leftover) String() string {
	return fmt.Sprintf("%s (identity %s, %s, attempt %d, pending %v, deleting %v)",
		l.ID, l.Identity, strings.Join(l.Parts, "+"), l.Marks.Attempt, l.Pending, l.Deleting)
}

// Instances is the leak probe: everything left, visible or not, sorted by ID. It bypasses faults and unread zones.
func (b *Backend) Instances() []Leftover {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	var all []Leftover
	for _, id := range slices.Sorted(maps.Keys(b.machines)) {
		m := b.machines[id]
		marks, _ := provider.MarksFromMap(m.labels)
		l := Leftover{ID: id, Identity: m.identity, Marks: marks, Pending: !m.visible, Deleting: m.deleting}
		if m.main {
			l.Parts = append(l.Parts, "instance")
		}
		if m.disk {
			l.Parts = append(l.Parts, "disk")
		}
		all = append(all, l)
	}
	return all
}

// Place puts an instance with these labels under id by hand, running since the moment it was placed, and returns its
// identity. It panics for an ID outside of the backend or in use: that is a mistake of the test.
func (b *Backend) Place(id string, labels map[string]string, port int32) (identity string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.settle()
	zone, ok := b.zoneOf(id)
	if !ok || b.machines[id] != nil {
		panic("providertest: Place: " + id + " is outside of the backend or in use")
	}
	m := b.newMachine(id, zone, maps.Clone(labels))
	m.port = port
	b.appear(m, now)
	m.running = now
	b.machines[id] = m
	return m.identity
}

// Stop makes the instance stopped, with a message why; it stays so until Start. It reports whether there is one.
func (b *Backend) Stop(id, why string) bool {
	return b.change(id, func(m *machine) { m.condition, m.message = provider.StateStopped, why })
}

// Terminate makes the instance terminated: it never runs again, but exists until deleted.
func (b *Backend) Terminate(id string) bool {
	return b.change(id, func(m *machine) { m.condition, m.message = provider.StateTerminated, "" })
}

// Confuse puts the instance into a state that its provider does not know.
func (b *Backend) Confuse(id string) bool {
	return b.change(id, func(m *machine) { m.condition, m.message = provider.StateUnknown, "" })
}

// Start makes the instance run again, under another address.
func (b *Backend) Start(id string) bool {
	return b.change(id, func(m *machine) {
		m.condition, m.message = "", ""
		b.readdress(m)
	})
}

// LoseMain removes the instance proper and leaves its disk.
func (b *Backend) LoseMain(id string) bool { return b.change(id, func(m *machine) { m.main = false }) }

// Vanish removes the instance with everything it has, as a hand at the console does.
func (b *Backend) Vanish(id string) bool {
	return b.change(id, func(m *machine) { b.drop(m, b.clock.Now()) })
}

func (b *Backend) change(id string, f func(*machine)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	m := b.machines[id]
	if m != nil {
		f(m)
	}
	return m != nil
}

// SetUnread makes a zone unreadable, or readable again. Calls to it fail meanwhile; what is in it lives on.
func (b *Backend) SetUnread(zone string, unread bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	if unread {
		b.unread[zone] = true
	} else {
		delete(b.unread, zone)
	}
}

// SetCapacity changes how many instances fit into a zone; 0 is no limit, a negative number lets none in.
func (b *Backend) SetCapacity(perZone int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.capacity = perZone
}

// SetBootDelay changes how long instances that become visible from now on take to run.
func (b *Backend) SetBootDelay(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	b.bootDelay = d
}

// CredentialRevision returns the revision of the credentials that the instance accepts, "" for none.
func (b *Backend) CredentialRevision(id string) (revision string) {
	b.change(id, func(m *machine) { revision = m.credentials })
	return revision
}

// Serving returns the identity of the instance that a connection to ip and port would reach, "" for none. It bypasses
// faults and unread zones.
func (b *Backend) Serving(ip string, port int32) (identity string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.settle()
	for _, m := range b.machines {
		up := m.visible && m.main && m.condition == "" && m.failure == nil && !m.deleting && !now.Before(m.running)
		if up && m.ip("10") == ip && m.port == port {
			return m.identity
		}
	}
	return ""
}
