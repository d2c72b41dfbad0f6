package lease

import (
	"container/heap"
	"time"
)

// queue keeps items by a deadline, the earliest first. An item's place is written back to it, so that it can be moved
// or taken out wherever it stands. The zero queue is not usable: at and place must be set.
type queue[T any] struct {
	entries []entry[T]
	at      func(T) time.Time
	place   func(T) *int
}

// entry repeats its item's deadline: comparing two must not fetch the items themselves, which lie all over the memory.
type entry[T any] struct {
	at   time.Time
	item T
}

func (q *queue[T]) push(item T)   { heap.Push(q, item) }
func (q *queue[T]) remove(item T) { heap.Remove(q, *q.place(item)) }

// moved takes in that the item's deadline has changed.
func (q *queue[T]) moved(item T) {
	i := *q.place(item)
	q.entries[i].at = q.at(item)
	heap.Fix(q, i)
}

// first returns the item with the earliest deadline.
func (q *queue[T]) first() (item T, ok bool) {
	if len(q.entries) == 0 {
		return item, false
	}
	return q.entries[0].item, true
}

// due takes out and returns the first item when its deadline is not after now.
func (q *queue[T]) due(now time.Time) (item T, ok bool) {
	if item, ok = q.first(); !ok || q.entries[0].at.After(now) {
		return item, false
	}
	heap.Pop(q)
	return item, true
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue[T]) Len() int           { return len(q.entries) }
func (q *queue[T]) Less(i, j int) bool { return q.entries[i].at.Before(q.entries[j].at) }

func (q *queue[T]) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	*q.place(q.entries[i].item), *q.place(q.entries[j].item) = i, j
}

func (q *queue[T]) Push(x any) {
	item, _ := x.(T)
	*q.place(item) = len(q.entries)
	q.entries = append(q.entries, entry[T]{q.at(item), item})
}

func (q *queue[T]) Pop() any {
	last := len(q.entries) - 1
	item := q.entries[last].item
	clear(q.entries[last:])
	q.entries = q.entries[:last]
	// A burst must not keep its memory for good.
	if c := cap(q.entries); c > 1024 && last < c/4 {
		q.entries = append(make([]entry[T], 0, c/2), q.entries...)
	}
	return item
}
