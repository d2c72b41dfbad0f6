package lease

import (
	"container/heap"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// class is what requests have in common for which the same proxies come into question in the same order.
type class struct {
	namespaces []string // sorted
	selector   map[string]string
	prefer     Prefer
	// target is set where so many proxies cool for it that they are better left out beforehand than passed over.
	target string
}

// class returns what q has in common with others; it shares nothing with q.
func (q *Query) class() class {
	return class{namespaces: slices.Sorted(slices.Values(q.Namespaces)), selector: maps.Clone(q.Selector), prefer: q.Prefer, target: q.Target}
}

func (c *class) matches(p *fleet.Proxy) bool {
	return (len(c.namespaces) == 0 || slices.Contains(c.namespaces, p.Key.Namespace)) && p.Matches(c.selector)
}

// ranking keeps the seats of one class in a tournament: each inner node holds the better of its two children, so the best
// of all is at the root, and a change of one seat costs one path. A seat that is not free loses against every free one;
// among those, the one that becomes free first wins, so the root also tells when that is.
//
// It is brought up to date from a log of changed seats when it is asked, and costs nothing while it is not.
type ranking struct {
	class
	// numbers are those of the members, ascending; a seat that has left leaves a nil behind.
	numbers []int32
	members []*seat
	stands  []place
	// tree holds indices of members, -1 for none; the root is tree[1], the leaves begin at len(tree)/2.
	tree []int32
	// count says how many members stand how.
	count [hindrances]int
	left  int // members that are nil
	// broken: a seat matches that was not among the candidates, because the fleet was ahead of the seats when they were
	// looked up; it cannot be appended behind seats with higher numbers.
	broken bool
	// read is how much of the log has been taken in.
	read uint64
}

// place is a member's standing in the class, as far as the tournament needs it.
type place struct {
	hindrance hindrance
	freeAt    int64 // in nanoseconds since 1970, never for never
}

const never = math.MaxInt64

func placeOf(s standing) place {
	if s.freeAt.IsZero() {
		return place{s.hindrance, never}
	}
	return place{s.hindrance, s.freeAt.UnixNano()}
}

// newRanking returns the ranking of seats, which must be sorted by number.
func newRanking(c class, seats []*seat, read uint64, now time.Time) *ranking {
	r := &ranking{class: c, members: seats, read: read, numbers: make([]int32, len(seats)), stands: make([]place, len(seats))}
	for i, s := range seats {
		r.numbers[i] = s.number
		r.stands[i] = placeOf(s.toward(c.target, now))
		r.count[r.stands[i].hindrance]++
	}
	r.plant()
	return r
}

// plant builds the tree anew.
func (r *ranking) plant() {
	leaves := 1
	for leaves < len(r.members) {
		leaves *= 2
	}
	r.tree = slices.Grow(r.tree[:0], 2*leaves)[:2*leaves]
	for i := range leaves {
		r.tree[leaves+i] = -1
		if i < len(r.members) && r.members[i] != nil {
			r.tree[leaves+i] = int32(i)
		}
	}
	for node := leaves - 1; node >= 1; node-- {
		r.tree[node] = r.better(r.tree[2*node], r.tree[2*node+1])
	}
}

// better returns the better of two members, either of which may be -1.
func (r *ranking) better(a, b int32) int32 {
	if a < 0 || b >= 0 && r.beats(b, a) {
		return b
	}
	return a
}

// beats reports whether member a is to be taken before member b.
func (r *ranking) beats(a, b int32) bool {
	x, y := r.stands[a], r.stands[b]
	switch {
	case x.hindrance == hindranceNone && y.hindrance == hindranceNone:
		return r.prefer.before(r.members[a], r.members[b])
	case x.hindrance == hindranceNone || y.hindrance == hindranceNone:
		return x.hindrance == hindranceNone
	case x.freeAt != y.freeAt:
		return x.freeAt < y.freeAt
	}
	return a < b
}

// changed takes in that something about the seat of that number is not as before; s is nil when it has left.
func (r *ranking) changed(number int32, s *seat, now time.Time) {
	i, member := slices.BinarySearch(r.numbers, number)
	switch {
	case !member && (s == nil || !r.matches(s.proxy)):
		return
	case !member && len(r.numbers) > 0 && number < r.numbers[len(r.numbers)-1]:
		r.broken = true // it was missing when this was built
		return
	case !member:
		r.append(s, now) // a new seat has the highest number there is
		return
	case r.members[i] == nil:
		return
	}
	r.count[r.stands[i].hindrance]--
	if s == nil {
		r.members[i] = nil
		r.left++
	} else {
		r.stands[i] = placeOf(s.toward(r.target, now))
		r.count[r.stands[i].hindrance]++
	}
	r.replay(i)
}

func (r *ranking) append(s *seat, now time.Time) {
	r.numbers, r.members = append(r.numbers, s.number), append(r.members, s)
	p := placeOf(s.toward(r.target, now))
	r.stands = append(r.stands, p)
	r.count[p.hindrance]++
	if len(r.members) > len(r.tree)/2 {
		r.plant()
		return
	}
	r.replay(len(r.members) - 1)
}

// replay plays the matches of member i again.
func (r *ranking) replay(i int) {
	node := len(r.tree)/2 + i
	r.tree[node] = -1
	if r.members[i] != nil {
		r.tree[node] = int32(i) //nolint:gosec // as in plant
	}
	for node /= 2; node >= 1; node /= 2 {
		r.tree[node] = r.better(r.tree[2*node], r.tree[2*node+1])
	}
}

// front are subtrees of a ranking, as a heap by their winners: among them is whatever has not been passed over yet. It is
// kept for the next time, so that a pick allocates nothing.
type front struct {
	*ranking
	nodes []int32
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (f *front) Len() int           { return len(f.nodes) }
func (f *front) Less(i, j int) bool { return f.beats(f.tree[f.nodes[i]], f.tree[f.nodes[j]]) }
func (f *front) Swap(i, j int)      { f.nodes[i], f.nodes[j] = f.nodes[j], f.nodes[i] }
func (f *front) Push(any)           {} // nodes are appended and then fixed, for a number in an interface is an allocation
func (f *front) Pop() any           { f.nodes = f.nodes[:len(f.nodes)-1]; return nil }

// add takes a subtree in, unless nobody is in it.
func (f *front) add(node int32) {
	if f.tree[node] >= 0 {
		f.nodes = append(f.nodes, node)
		heap.Fix(f, len(f.nodes)-1)
	}
}

// best returns the best member for which pass is not true, nil when there is none. Each that is passed over costs a path.
func (r *ranking) best(pass func(*seat) bool, f *front) *seat {
	f.ranking, f.nodes = r, f.nodes[:0]
	for f.add(1); len(f.nodes) > 0; {
		node := f.nodes[0]
		winner := r.tree[node]
		if s := r.members[winner]; !pass(s) {
			return s
		}
		heap.Pop(f)
		for half := int32(len(r.tree) / 2); node < half; { //nolint:gosec // down to the one passed over, keeping what it had beaten
			node *= 2
			if r.tree[node] == winner {
				f.add(node + 1)
			} else {
				f.add(node)
				node++
			}
		}
	}
	return nil
}

// considered returns how many members there are.
func (r *ranking) considered() int { return len(r.members) - r.left }
