package health

import (
	"container/heap"
	"time"
)

// entry says that something is due for st. Times are counted from the engine's start, so that steps of the wall clock
// move nothing.
type entry struct {
	at time.Duration
	st *state
}

// queue hands out entries in the order of their times. An entry whose state has since been given another time is left
// where it is and skipped when it comes up: that keeps the heap free of back references, and a look costs what is due.
type queue struct {
	entries entries
	// current tells whether an entry is still meant.
	current func(entry) bool
}

func (q *queue) push(e entry) { heap.Push(&q.entries, e) }

// first returns the earliest entry that is meant, leaving it in the queue.
func (q *queue) first() (entry, bool) {
	for len(q.entries) > 0 {
		if e := q.entries[0]; q.current(e) {
			return e, true
		}
		heap.Pop(&q.entries)
	}
	return entry{}, false
}

func (q *queue) pop() { heap.Pop(&q.entries) }

// compact drops the skipped entries once they outnumber what is alive.
func (q *queue) compact(alive int) {
	if len(q.entries) <= 2*alive+64 {
		return
	}
	kept := make(entries, 0, alive)
	for _, e := range q.entries {
		if q.current(e) {
			kept = append(kept, e)
		}
	}
	heap.Init(&kept)
	q.entries = kept
}

type entries []entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].at < h[j].at }
func (h entries) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *entries) Push(x any)        { *h = append(*h, x.(entry)) } //nolint:forcetypeassert // queue.push gives nothing else
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = entry{}
	*h = (*h)[:last]
	return e
}
