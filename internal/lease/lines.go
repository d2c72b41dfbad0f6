package lease

import (
	"container/list"
	"time"

	"github.com/google/btree"
)

// lines are the lines in which requests wait. Requests of one class for one target stand in one line, in the order in
// which they came. The lines are found from a seat by its attributes, so a seat that becomes free costs about as much as
// there are classes that it would do for, however many lines there are.
type lines struct {
	groups map[string]*group // by the name of the class without a target
	// byPair holds the groups by one attribute of their selector; those without a selector under the zero pair.
	byPair map[pair]map[*group]struct{}
}

// pair is an attribute with its value.
type pair struct{ key, value string }

// group is the lines of one class, which differ by their targets.
type group struct {
	name string
	class
	under pair
	lines map[string]*line // by target
	// order are the lines by when their first request came.
	order *btree.BTreeG[*line]
}

type line struct {
	group  *group
	target string
	queue  list.List // of *waiter
	// first is when the request at the head came.
	first uint64
}

// degree of the trees of lines: few have more than a handful.
const degree = 8

func newLines() lines {
	return lines{groups: map[string]*group{}, byPair: map[pair]map[*group]struct{}{}}
}

// push puts w at the end of its line. name is that of its class without a target; proxies tells how many proxies have an
// attribute, for a group is best found by the rarest.
func (ls *lines) push(w *waiter, name string, proxies func(map[string]string) int) {
	g := ls.groups[name]
	if g == nil {
		g = &group{name: name, class: w.req.class(), lines: map[string]*line{}, order: btree.NewG(degree, func(a, b *line) bool {
			return a.first < b.first
		})}
		g.target = ""
		fewest := 0
		for k, v := range g.selector {
			if n := proxies(map[string]string{k: v}); g.under == (pair{}) || n < fewest {
				g.under, fewest = pair{k, v}, n
			}
		}
		ls.groups[name] = g
		if ls.byPair[g.under] == nil {
			ls.byPair[g.under] = map[*group]struct{}{}
		}
		ls.byPair[g.under][g] = struct{}{}
	}
	l := g.lines[w.req.Target]
	if l == nil {
		l = &line{group: g, target: w.req.Target, first: w.came}
		g.lines[l.target] = l
		g.order.ReplaceOrInsert(l)
	}
	w.line, w.at = l, l.queue.PushBack(w)
}

// remove takes w out of its line.
func (ls *lines) remove(w *waiter) {
	l := w.line
	g := l.group
	head := l.queue.Front() == w.at
	l.queue.Remove(w.at)
	w.at = nil
	if !head {
		return
	}
	g.order.Delete(l)
	if next := l.queue.Front(); next != nil {
		l.first = next.Value.(*waiter).came //nolint:forcetypeassert // push puts nothing else in
		g.order.ReplaceOrInsert(l)
		return
	}
	if delete(g.lines, l.target); len(g.lines) > 0 {
		return
	}
	delete(ls.groups, g.name)
	if delete(ls.byPair[g.under], g); len(ls.byPair[g.under]) == 0 {
		delete(ls.byPair, g.under)
	}
}

// firstFor returns whoever has waited longest for a proxy like s.
func (ls *lines) firstFor(s *seat, now time.Time) *waiter {
	var first *line
	consider := func(under pair) {
		for g := range ls.byPair[under] {
			if !g.matches(s.proxy) {
				continue
			}
			g.order.Ascend(func(l *line) bool {
				if first != nil && l.first > first.first {
					return false
				}
				if s.toward(l.target, now).hindrance != hindranceNone {
					return true
				}
				first = l
				return false
			})
		}
	}
	consider(pair{})
	for k, v := range s.proxy.Attributes {
		consider(pair{k, v})
	}
	if first == nil {
		return nil
	}
	return first.queue.Front().Value.(*waiter) //nolint:forcetypeassert // as in remove
}
