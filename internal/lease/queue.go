package lease

import (
	"container/heap"
	"time"
)

// queue keeps items by a deadline, the earliest first. An item's place is written back to it, so that it can be moved
// or taken out wherever it stands. The zero queue is not usable: at and place must be set.
type queue[T any] struct {
	items []T
	at    func(T) time.Time
	place func(T) *int
}

func (q *queue[T]) push(item T)   { heap.Push(q, item) }
func (q *queue[T]) remove(item T) { heap.Remove(q, *q.place(item)) }
func (q *queue[T]) moved(item T)  { heap.Fix(q, *q.place(item)) }

// first returns the item with the earliest deadline.
func (q *queue[T]) first() (item T, ok bool) {
	if len(q.items) == 0 {
		return item, false
	}
	return q.items[0], true
}

// due takes out and returns the first item when its deadline is not after now.
func (q *queue[T]) due(now time.Time) (item T, ok bool) {
	if item, ok = q.first(); !ok || q.at(item).After(now) {
		return item, false
	}
	heap.Pop(q)
	return item, true
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (q *queue[T]) Len() int           { return len(q.items) }
func (q *queue[T]) Less(i, j int) bool { return q.at(q.items[i]).Before(q.at(q.items[j])) }

func (q *queue[T]) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	*q.place(q.items[i]), *q.place(q.items[j]) = i, j
}

func (q *queue[T]) Push(x any) {
	item, _ := x.(T)
	*q.place(item) = len(q.items)
	q.items = append(q.items, item)
}

func (q *queue[T]) Pop() any {
	last := len(q.items) - 1
	item := q.items[last]
	clear(q.items[last:])
	q.items = q.items[:last]
	// A burst must not keep its memory for good.
	if c := cap(q.items); c > 1024 && last < c/4 {
		q.items = append(make([]T, 0, c/2), q.items...)
	}
	return item
}
