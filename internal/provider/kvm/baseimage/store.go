package baseimage

import (
	"context"
	"io"
)

// Volume is one of a pool.
type Volume struct {
	Name string
	// Capacity in bytes, of those that were asked for it.
	Capacity int64
}

// Store is one host's storage pool. Every call blocks until it is done or its ctx ends. Errors that are of one of provider's
// classes (errors.Is) keep it: ErrQuotaExceeded is a full pool. Anything else is transient.
type Store interface {
	// Volumes returns all volumes of the pool as they are now, also those that other processes have made. It need not know the
	// capacity of those for which sized is false: that takes a call each.
	Volumes(ctx context.Context, sized func(name string) bool) ([]Volume, error)
	// Create makes a raw volume. It fails if one of that name exists. Capacity and allocation are in bytes.
	Create(ctx context.Context, name string, capacity, allocation int64) error
	// Upload writes length bytes from r to the volume, and reads nothing from r once it has returned. An error of r ends it.
	Upload(ctx context.Context, name string, r io.Reader, length int64) error
	// Delete removes a volume. Nil if there is none.
	Delete(ctx context.Context, name string) error
}
