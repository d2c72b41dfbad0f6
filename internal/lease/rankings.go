package lease

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// logLength is how many changes are kept for rankings that have not been asked for a while; one that is further
	// behind is built anew.
	logLength = 1 << 16
	// The rankings kept have at most this many members in all, or eight times the fleet: about 40 bytes each.
	maxMembers, maxMembersPerSeat = 400_000, 8
	// maxRankings bounds those of small classes.
	maxRankings = 1024
	// A ranking is built at once when that takes a look at no more than freeEffort seats. For a larger one each request
	// that could use it saves effortSaved: classes that come and go are not worth their rankings.
	freeEffort, effortSaved = 2048, 256
)

// rankings keeps the rankings of the classes that were asked for last, and a log of changed seats for them to read. The
// ledger's mutex guards it.
type rankings struct {
	seats map[int32]*seat // by number
	// ordered are the seats by number, those that have left in between among them; there are gaps of them.
	ordered []*seat
	gaps    int
	next    int32
	// log holds the numbers of changed seats, the i-th change at i modulo its length.
	log     []int32
	changes uint64

	byClass map[string]*kept
	clock   uint64 // counts uses, to tell the least recently used
	members int
	// saved is the effort that may go into rankings, each request adds saves; free is what a ranking may take beside.
	saved, saves, free int
	// floor is how many members the rankings may have in all however small the fleet is.
	floor int

	name  []byte   // scratch for the name of a class
	keys  []string // scratch for its attributes
	front front
}

type kept struct {
	*ranking
	used uint64
	size int // what it counts in rankings.members
}

func newRankings() *rankings {
	return &rankings{seats: map[int32]*seat{}, log: make([]int32, logLength), byClass: map[string]*kept{}, floor: maxMembers, saves: effortSaved, free: freeEffort}
}

// seat gives s a number, the highest so far.
func (rs *rankings) seat(s *seat) {
	if rs.next == math.MaxInt32 {
		rs.renumber()
	}
	rs.next++
	s.number = rs.next
	rs.seats[s.number] = s
	rs.ordered = append(rs.ordered, s)
	rs.touch(s)
}

// unseat lets s leave.
func (rs *rankings) unseat(s *seat) {
	delete(rs.seats, s.number)
	s.gone = true
	if rs.gaps++; rs.gaps > len(rs.ordered)/2+64 {
		rs.ordered, rs.gaps = rs.sorted(), 0
	}
	rs.touch(s)
}

// touch notes that s is not as before.
func (rs *rankings) touch(s *seat) {
	rs.log[rs.changes%uint64(len(rs.log))] = s.number
	rs.changes++
}

// renumber starts over with small numbers and without rankings.
func (rs *rankings) renumber() {
	seats := rs.sorted()
	clear(rs.seats)
	for i, s := range seats {
		s.number = int32(i) + 1
		rs.seats[s.number] = s
	}
	rs.next, rs.ordered, rs.gaps = int32(len(seats)), seats, 0 //nolint:gosec // a fleet is smaller
	rs.forget()
}

// forget drops every ranking.
func (rs *rankings) forget() {
	clear(rs.byClass)
	rs.members = 0
}

// sorted returns the seats by number, in a slice of its own.
func (rs *rankings) sorted() []*seat {
	out := make([]*seat, 0, len(rs.seats))
	for _, s := range rs.ordered {
		if !s.gone {
			out = append(out, s)
		}
	}
	return out
}

// affords reports whether the ranking of the class of q is there or may be built by looking at that many seats.
func (rs *rankings) affords(q Query, target bool, effort int) bool {
	rs.nameOf(q, target)
	if k := rs.byClass[string(rs.name)]; k != nil && !rs.stale(k.ranking) || effort <= rs.free {
		return true
	}
	if !target && len(q.Selector) == 0 && len(q.Namespaces) == 0 {
		return true // what glances need
	}
	rs.saved = min(rs.saved+rs.saves, len(rs.seats))
	if rs.saved < effort {
		return false
	}
	rs.saved -= effort
	return true
}

// of returns the ranking of the class of q as it is now; with target, of those requests alone that are for q's target.
// The candidates are asked for only when it has to be built; they may be more than match.
func (rs *rankings) of(q Query, target bool, candidates func() []*seat, now time.Time) *ranking {
	rs.nameOf(q, target)
	rs.clock++
	k := rs.byClass[string(rs.name)]
	if k != nil && !rs.stale(k.ranking) {
		k.used = rs.clock
		rs.update(k, now)
		if !k.broken {
			return k.ranking
		}
	}
	if k != nil {
		rs.drop(string(rs.name))
	}
	c := q.class()
	if !target {
		c.target = ""
	}
	seats := slices.DeleteFunc(candidates(), func(s *seat) bool { return !c.matches(s.proxy) })
	byNumber := func(a, b *seat) int { return cmp.Compare(a.number, b.number) }
	if !slices.IsSortedFunc(seats, byNumber) {
		slices.SortFunc(seats, byNumber)
	}
	k = &kept{ranking: newRanking(c, seats, rs.changes, now), used: rs.clock, size: len(seats)}
	rs.byClass[string(rs.name)] = k
	rs.members += k.size
	rs.evict(k)
	return k.ranking
}

// nameOf writes the name of a class, which no other has: all parts but the last are without NUL.
func (rs *rankings) nameOf(q Query, target bool) {
	b := append(rs.name[:0], q.Prefer...)
	rs.keys = append(rs.keys[:0], q.Namespaces...)
	slices.Sort(rs.keys)
	for _, k := range rs.keys {
		b = append(append(b, 0), k...)
	}
	b = append(b, 0) // an empty name ends the namespaces
	rs.keys = rs.keys[:0]
	for k := range q.Selector {
		rs.keys = append(rs.keys, k)
	}
	slices.Sort(rs.keys)
	for _, k := range rs.keys {
		b = append(append(b, 0), k...)
		b = append(append(b, 0), q.Selector[k]...)
	}
	if target {
		b = append(append(b, 0, 0), q.Target...)
	}
	rs.name = b
}

// stale reports whether r is better built anew: the log does not reach back far enough, or most of it has left.
func (rs *rankings) stale(r *ranking) bool {
	behind := rs.changes - r.read
	return behind > uint64(len(rs.log)) || behind > uint64(len(r.members)/8+256) || r.left > len(r.members)/2+64
}

func (rs *rankings) update(k *kept, now time.Time) {
	for ; k.read < rs.changes; k.read++ {
		number := rs.log[k.read%uint64(len(rs.log))]
		k.changed(number, rs.seats[number], now)
	}
	rs.members += len(k.members) - k.size
	k.size = len(k.members)
}

func (rs *rankings) drop(name string) {
	rs.members -= rs.byClass[name].size
	delete(rs.byClass, name)
}

// evict drops the rankings used least recently, but not the one just built, until the rest is within bounds.
func (rs *rankings) evict(fresh *kept) {
	for most := max(rs.floor, maxMembersPerSeat*len(rs.seats)); rs.members > most || len(rs.byClass) > maxRankings; {
		oldest, used := "", fresh.used
		for name, k := range rs.byClass {
			if k.used < used {
				oldest, used = name, k.used
			}
		}
		if used == fresh.used {
			return
		}
		rs.drop(oldest)
	}
}
