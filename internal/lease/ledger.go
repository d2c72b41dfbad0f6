package lease

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// Defaults of Options, and the bounds that keep the ledger's memory finite.
const (
	DefaultCooldownWindow = 10 * time.Minute
	DefaultMaxLifetime    = 24 * time.Hour
	DefaultMaxLive        = 1_000_000
	DefaultMaxRemembered  = 1_000_000
	DefaultMaxCooldowns   = 1_000_000
	DefaultMaxWaiting     = 10_000
	// MaxTargets is for how many targets one proxy cools separately; past it, it cools for all.
	MaxTargets = 1024
)

// Options configure a Ledger. Zero values of the bounds stand for the defaults.
type Options struct {
	// Fleet is required.
	Fleet *fleet.Store
	// Clock is required.
	Clock clock.WithTicker
	// CooldownWindow is how long a proxy rests after a report, and how long an ended lease can still be reported on.
	CooldownWindow time.Duration
	// MaxLifetime bounds a lease's life from its grant, renewals included.
	MaxLifetime time.Duration
	// MaxLive bounds the leases live at one time; beyond it Acquire refuses with ErrOverloaded.
	MaxLive int
	// MaxRemembered bounds the ended leases kept for late reports; beyond it those that ended first are forgotten early.
	MaxRemembered int
	// MaxCooldowns bounds the cooldowns per target of all proxies; beyond it a proxy cools for every target instead.
	MaxCooldowns int
	// MaxWaiting bounds the requests that wait at one time. Beyond it a request takes the place of the last one of the
	// principal that has the most, if that is not its own; that one, otherwise the request itself, is refused as if it
	// did not want to wait.
	MaxWaiting int
	// StartupHold is for how long after this ledger first grants proxies with a cap are kept back: leases that the ledger
	// before granted may still be held on them. 0 for not at all.
	StartupHold time.Duration
	// MayGrant says whether this process may commit anything for clients now; nil for always. It is called with the
	// ledger's lock held and must neither block nor call the ledger.
	MayGrant func() bool
	// OnCooldown is told of every report that has a proxy of the fleet rest. It may be called by several goroutines at a time,
	// in any order, and must not block. Nil for nobody.
	OnCooldown func(Cooldown)
}

// Cooldown is a rest that a report was the cause of.
type Cooldown struct {
	Proxy     types.NamespacedName
	Principal string
	Result    Result
	// Target is a canonical host name, empty for every target; it is what a client has sent.
	Target string
	// Until is when this rest ends; an earlier one may last longer.
	Until time.Time
}

// Ledger knows who holds what. All methods are safe for concurrent use; they block only on the ledger's own lock and
// on the fleet store's.
type Ledger struct {
	o     Options
	epoch string
	watch *fleet.Watcher

	mu sync.Mutex
	// last is the latest time seen: time never runs backwards here.
	last     time.Time
	grants   uint64
	leases   map[string]*record
	accounts map[fleet.LeaseKey]*account
	// seats mirrors the fleet by name, known by lease key.
	seats    map[types.NamespacedName]*seat
	known    map[fleet.LeaseKey]*seat
	rankings *rankings
	// targets are the accounts that rest for a target, by the target; those that rest for all are not in it.
	targets map[string]map[*account]struct{}
	hold    hold
	queue   waiters
	keys    map[keyName]*record
	tally   tally

	live    queue[*record]
	ended   queue[*record]
	cooling queue[*cooldown]
	strays  queue[*account]
}

// New returns an empty ledger with an epoch of its own. It errors when an option is missing or out of bounds.
func New(o Options) (*Ledger, error) {
	if o.Fleet == nil || o.Clock == nil {
		return nil, errors.New("lease: Fleet and Clock are required")
	}
	defaulted(&o.CooldownWindow, DefaultCooldownWindow)
	defaulted(&o.MaxLifetime, DefaultMaxLifetime)
	defaulted(&o.MaxLive, DefaultMaxLive)
	defaulted(&o.MaxRemembered, DefaultMaxRemembered)
	defaulted(&o.MaxCooldowns, DefaultMaxCooldowns)
	defaulted(&o.MaxWaiting, DefaultMaxWaiting)
	if o.CooldownWindow < 0 || o.MaxWaiting < 0 || o.StartupHold < 0 || o.MaxLifetime < 0 || o.MaxLive < 0 || o.MaxRemembered < 0 || o.MaxCooldowns < 0 {
		return nil, fmt.Errorf("lease: bounds must not be negative (cooldown window %v, lifetime %v, leases %d)",
			o.CooldownWindow, o.MaxLifetime, o.MaxLive)
	}
	if o.MayGrant == nil {
		o.MayGrant = func() bool { return true }
	}
	l := &Ledger{
		o: o, epoch: rand.Text(), watch: o.Fleet.Watch(), rankings: newRankings(),
		leases:   map[string]*record{},
		accounts: map[fleet.LeaseKey]*account{},
		seats:    map[types.NamespacedName]*seat{},
		known:    map[fleet.LeaseKey]*seat{},
		targets:  map[string]map[*account]struct{}{},
		keys:     map[keyName]*record{},
		hold:     hold{lasts: o.StartupHold},
		queue:    newWaiters(),
		tally:    tally{reports: map[Result]uint64{}},
	}
	l.live.at, l.live.place = func(r *record) time.Time { return r.expires }, func(r *record) *int { return &r.inLive }
	l.ended.at, l.ended.place = func(r *record) time.Time { return r.forget }, func(r *record) *int { return &r.inEnded }
	l.cooling.at, l.cooling.place = func(c *cooldown) time.Time { return c.until }, func(c *cooldown) *int { return &c.place }
	l.strays.at, l.strays.place = func(a *account) time.Time { return a.strayUntil }, func(a *account) *int { return &a.inStrays }
	return l, nil
}

func defaulted[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Epoch is random and differs between any two ledgers. A client that sees it change knows that its leases are gone.
func (l *Ledger) Epoch() string { return l.epoch }

// Live returns how many leases are live.
func (l *Ledger) Live() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	return l.live.Len()
}

// LiveOn returns how many leases are live on key.
func (l *Ledger) LiveOn(key fleet.LeaseKey) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	return l.liveOn(key)
}

// LiveOnEach returns how many leases are live on each of proxies, all as of one instant.
func (l *Ledger) LiveOnEach(proxies []*fleet.Proxy) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begin()
	out := make([]int, len(proxies))
	for i, p := range proxies {
		out[i] = l.liveOn(p.LeaseKey())
	}
	return out
}

func (l *Ledger) liveOn(key fleet.LeaseKey) int {
	if a := l.accounts[key]; a != nil {
		return a.held.Len()
	}
	return 0
}

// account returns the one of key, a new one when there is none. l.mu is held.
func (l *Ledger) account(key fleet.LeaseKey) *account {
	a := l.accounts[key]
	if a == nil {
		a = newAccount(key)
		l.accounts[key] = a
		if s := l.known[key]; s != nil {
			a.seat, s.account = s, a
		}
	}
	return a
}
