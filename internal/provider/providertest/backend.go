package providertest

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Kind is what a backend remembers about creations. Names are unique in all of them.
type Kind string

// The kinds.
const (
	// KindGCP remembers idempotency tokens and lets the operation behind each be read, ended and failed ones included.
	KindGCP Kind = "gcp"
	// KindEC2 remembers idempotency tokens but shows nothing about an instance that is not there.
	KindEC2 Kind = "ec2"
	// KindName knows nothing but the names that are taken.
	KindName Kind = "name"
)

func (k Kind) tokens() bool { return k != KindName }

// Kinds returns all kinds.
func Kinds() []Kind { return []Kind{KindGCP, KindEC2, KindName} }

// BackendOptions shape a backend. The zero value is a backend with two zones where everything happens at once.
type BackendOptions struct {
	// Zones default to zone-a and zone-b. The first is where requests without a zone go.
	Zones []string
	// Capacity is how many instances fit into one zone; 0 is no limit.
	Capacity int
	// CreateDelay passes between acceptance and visibility; it must not exceed Visibility.
	CreateDelay time.Duration
	// BootDelay passes between visibility and Running.
	BootDelay time.Duration
	// DeleteDelay passes between the acceptance of a deletion and absence.
	DeleteDelay time.Duration
	// ListLag is how far a list is behind.
	ListLag time.Duration
	// Visibility is the bound that providers put into their windows.
	Visibility time.Duration
	// TokenMemory is how long tokens of ended creations are remembered; 0 is for ever.
	TokenMemory time.Duration
}

// Backend is a cloud in memory. It outlives the providers made on it. Nothing in it happens but by its clock: whatever
// has fallen due takes effect, in order, at the next access. It is safe for concurrent use.
type Backend struct {
	kind  Kind
	clock clock.PassiveClock
	opts  BackendOptions

	mu         sync.Mutex
	hook       func(op string, ref provider.Ref) Fault
	machines   map[string]*machine // by ID, those not visible yet included
	gone       []*machine          // what a lagging list still shows
	operations map[string]*operation
	queue      []event
	unread     map[string]bool
	calls      map[string]int
	inFlight   int
	identities uint64
	addresses  uint32
	capacity   int
	bootDelay  time.Duration
}

// machine is everything that one creation made.
type machine struct {
	id, zone, identity string
	labels             map[string]string
	port               int32
	address            uint32
	visible            bool
	created, running   time.Time
	visibleAt, goneAt  time.Time
	deleting           bool
	condition          provider.State // "", Stopped, Terminated or Unknown
	message            string
	failure            error
	main, disk         bool
	credentials        string
}

// operation is a creation as the backend remembers it under its token.
type operation struct {
	ended time.Time // zero while in progress
	err   error
}

type event struct {
	at  time.Time
	run func(at time.Time)
}

// NewBackend returns an empty backend driven by c.
func NewBackend(kind Kind, c clock.PassiveClock, opts BackendOptions) *Backend {
	if len(opts.Zones) == 0 {
		opts.Zones = []string{"zone-a", "zone-b"}
	}
	return &Backend{
		kind: kind, clock: c, opts: opts, capacity: opts.Capacity, bootDelay: opts.BootDelay,
		machines: map[string]*machine{}, operations: map[string]*operation{}, unread: map[string]bool{}, calls: map[string]int{},
	}
}

// Kind returns what the backend remembers.
func (b *Backend) Kind() Kind { return b.kind }

// settle lets everything happen that has fallen due, in order, and returns the time.
func (b *Backend) settle() time.Time {
	now := b.clock.Now()
	for {
		next := -1
		for i, e := range b.queue {
			if !e.at.After(now) && (next < 0 || e.at.Before(b.queue[next].at)) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		e := b.queue[next]
		b.queue = append(b.queue[:next], b.queue[next+1:]...)
		e.run(e.at)
	}
	keep := b.gone[:0]
	for _, m := range b.gone {
		if m.goneAt.Add(b.opts.ListLag).After(now) {
			keep = append(keep, m)
		}
	}
	b.gone = keep
	return now
}

// after runs f once d has passed, at once for no delay.
func (b *Backend) after(now time.Time, d time.Duration, f func(at time.Time)) {
	if d <= 0 {
		f(now)
		return
	}
	b.queue = append(b.queue, event{now.Add(d), f})
}

// drop removes what is left of m.
func (b *Backend) drop(m *machine, at time.Time) {
	if b.machines[m.id] != m {
		return
	}
	delete(b.machines, m.id)
	if m.visible {
		m.goneAt = at
		b.gone = append(b.gone, m)
	}
}

// newMachine returns a machine with an identity that no other ever has.
func (b *Backend) newMachine(id, zone string, labels map[string]string) *machine {
	b.identities++
	m := &machine{id: id, zone: zone, identity: strconv.FormatUint(b.identities, 10), labels: labels, main: true, disk: true}
	b.readdress(m)
	return m
}

func (b *Backend) readdress(m *machine) {
	b.addresses++
	m.address = b.addresses
}

func (m *machine) ip(network string) string {
	return fmt.Sprintf("%s.%d.%d.%d", network, m.address>>16&0xff, m.address>>8&0xff, m.address&0xff)
}

// zoneOf returns the zone in which an ID lies, ok false for an ID that is malformed or outside of the backend.
func (b *Backend) zoneOf(id string) (zone string, ok bool) {
	m := idForm.FindStringSubmatch(id)
	if m == nil {
		return "", false
	}
	for _, z := range b.opts.Zones {
		if z == m[1] {
			return z, true
		}
	}
	return "", false
}
