package provider

import "context"

// Watcher is implemented by providers whose backend tells by itself what becomes of instances. What it tells is a hint:
// it withdraws an address at once and wakes whoever is concerned, and proves nothing.
type Watcher interface {
	// Watch calls tell for every instance of this installation that it finds, and then for each change, until ctx ends.
	// It reconnects by itself, and then tells of everything that is there and of what has gone meanwhile. Changes of one
	// instance are told in their order; tell is called by several goroutines and must not block.
	Watch(ctx context.Context, tell func(Change))
}

// Change is what became of one instance.
type Change struct {
	// Instance as Get would show it, or as it was last seen where it is gone.
	Instance Instance
	// Gone: the instance proper has been removed. Parts of it may be left.
	Gone bool
}
