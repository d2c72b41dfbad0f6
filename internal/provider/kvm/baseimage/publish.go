package baseimage

import (
	"context"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// late reports whether others may take the data for abandoned before long. It goes by the wall clock, as they do: a
// monotonic one may stand still while the machine sleeps.
func (d *download) late(name string) bool {
	_, start, ok := d.cache.names.read(name)
	return !ok || d.cache.opts.Clock.Now().Round(0).Sub(start) >= Whole
}

// publish creates the marker, unless another copy is published by now. Before the marker is sent the data is nobody
// else's, and removed when it is not published; after that it is never removed.
func (d *download) publish(ctx context.Context, store Store, v *verified) error {
	sent := d.verified != nil // by an earlier try
	d.watch.enter(listing)
	volumes, err := store.Volumes(ctx, d.cache.names.marks(d.target))
	_, other := d.cache.names.published(volumes, d.target)
	switch {
	case err != nil:
	case other:
		err = nil
	case !has(volumes, v.name):
		err = fail(provider.ErrTransient, "its volume has vanished from the pool")
	case d.late(v.name):
		err = fail(provider.ErrTransient, "the download takes too long")
	default:
		d.verified = v
		d.watch.enter(listing)
		if err := store.Create(ctx, v.name+ready, v.size, 0); err != nil {
			return err
		}
		d.verified = nil
		return nil
	}
	if !sent {
		d.remove(ctx, store, v.name)
	} else if err == nil {
		d.verified = nil
	}
	return err
}

// remove takes away data whose marker was never sent, also after ctx has ended. What cannot be removed now is left to the
// next try.
func (d *download) remove(ctx context.Context, store Store, name string) {
	ctx = context.WithoutCancel(ctx)
	err := within(ctx, removeSoon, func(ctx context.Context) error { return store.Delete(ctx, name) })
	if err != nil { // the connection may have gone down with the upload
		err = within(ctx, removeAnew, func(ctx context.Context) error {
			fresh, closer, err := d.cache.opts.Open(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = closer.Close() }() // nothing is pending on it
			return fresh.Delete(ctx, name)
		})
	}
	if err != nil {
		d.debris = append(d.debris, name)
		logf.FromContext(ctx).WithName("baseimage").V(1).Info("an unfinished volume stays for now", "host", d.cache.opts.Host,
			"image", d.image.Name, "error", d.cache.names.failed(err).of(d.image).Message)
	}
}

func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}
