package baseimage

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing"
)

// How long the removal of an interrupted download's volume may take: on its own connection, and on a new one.
const (
	removeSoon = 5 * time.Second
	removeAnew = 10 * time.Second
)

// download is one try to get an image into the pool. One goroutine has it.
type download struct {
	cache  *Cache
	image  Image
	url    *url.URL
	target target
	run    *run
	watch  *watch
	holds  bool // a slot

	// What it takes over from the try before and leaves to the next; see entry.
	debris   []string
	verified *verified
}

// do downloads, verifies and publishes, unless the image is there already. It blocks until that is done, fails, or ctx ends.
func (d *download) do(ctx context.Context) *Failure {
	opts := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(
		attribute.String("kvm.host", d.cache.opts.Host), attribute.String("kvm.image", d.image.Name))}
	if trace.SpanContextFromContext(ctx).IsValid() {
		opts = append(opts, trace.WithLinks(trace.LinkFromContext(ctx)))
	}
	ctx, span := tracing.StartSpan(ctx, "kvm.download", opts...)
	defer span.End()
	log := logf.FromContext(ctx).WithName("baseimage").V(1)
	log.Info("download begins", "host", d.cache.opts.Host, "image", d.image.Name)

	err := d.watched(ctx)
	bytes := d.run.source.Load().bytes()
	span.SetAttributes(attribute.Int64("kvm.bytes", bytes))
	if err == nil {
		log.Info("download succeeded", "host", d.cache.opts.Host, "image", d.image.Name, "bytes", bytes)
		return nil
	}
	failed := d.cache.names.failed(err)
	said := failed.of(d.image).Message
	span.SetStatus(codes.Error, said)
	log.Info("download failed", "host", d.cache.opts.Host, "image", d.image.Name, "bytes", bytes,
		"class", failed.Class.Error(), "error", said)
	return failed
}

// take waits for a slot, and give gives it back if there is one. Those that wait for a host hold none.
func (d *download) take(ctx context.Context) error {
	slots := d.cache.opts.Slots
	if slots == nil {
		return nil
	}
	d.watch.enter(queueing)
	select {
	case slots <- struct{}{}:
		d.holds = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (d *download) give() {
	if d.holds {
		<-d.cache.opts.Slots
		d.holds = false
	}
}

// watched ends the download when it does not get on.
func (d *download) watched(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	d.watch = startWatch(ctx, d.cache.opts.Clock, cancel)
	err := d.connect(ctx)
	if cause, ok := errors.AsType[*Failure](context.Cause(ctx)); ok && err != nil {
		err = cause // the watch knows why
	}
	cancel(nil)
	d.watch.wait()
	return err
}

func (d *download) connect(ctx context.Context) error {
	store, closer, err := d.cache.opts.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = closer.Close() }() // nothing is pending on it
	d.watch.enter(listing)
	volumes, err := store.Volumes(ctx, d.cache.names.marks(d.target))
	if err != nil {
		return err
	}
	if _, ok := d.cache.names.published(volumes, d.target); ok {
		d.verified = nil
		return nil
	}
	if v := d.verified; v != nil && has(volumes, v.name) && !d.late(v.name) {
		return d.publish(ctx, store, v)
	}
	d.verified = nil
	if err := d.sweep(ctx, store, volumes); err != nil {
		return err
	}
	return d.transfer(ctx, store, volumes)
}

// sweep removes what downloads of the checksum have left that nobody is writing any more.
func (d *download) sweep(ctx context.Context, store Store, volumes []Volume) error {
	left, now := 0, d.cache.opts.Clock.Now()
	ours := d.debris
	d.debris = nil
	for _, name := range d.cache.names.unfinished(volumes, d.target.sum) {
		own := slices.Contains(ours, name)
		if own || d.cache.names.abandoned(name, now) {
			d.watch.enter(listing)
			if err := store.Delete(ctx, name); err == nil {
				continue
			}
		}
		if own {
			d.debris = append(d.debris, name)
		}
		left++
	}
	if left >= Unfinished {
		return fail(provider.ErrTransient, "the pool has %d unfinished copies of it; each counts as abandoned %.0f hours after its start",
			left, Abandoned.Hours())
	}
	return nil
}

// transfer makes a volume with the image in it, and publishes it. What is not published is removed.
func (d *download) transfer(ctx context.Context, store Store, volumes []Volume) error {
	if err := d.take(ctx); err != nil {
		return err
	}
	defer d.give()
	d.watch.begin()
	d.watch.enter(asking)
	opts := d.cache.opts
	resp, f := fetch(ctx, d.cache.client, d.url, opts.MaxLength, opts.Clock.Now())
	if f != nil {
		return f
	}
	defer func() { _ = resp.Body.Close() }() // all that counts of it was read
	src := newSource(resp.Body, resp.ContentLength, d.watch)
	d.run.source.Store(src)
	head, err := src.peek(headSize)
	if err != nil {
		return err
	}
	size, f := virtualSize(d.target.format, head, src.length)
	if f != nil {
		return f
	}
	name := d.cache.names.new(d.target, d.watch.began, volumes)
	if err := d.fill(ctx, store, name, src); err != nil {
		d.remove(ctx, store, name)
		return err
	}
	return d.publish(ctx, store, &verified{name, size})
}

// fill uploads and verifies. All of the volume is allocated first: a pool that is too small says so at once, before VMs
// that write to it run out of space.
func (d *download) fill(ctx context.Context, store Store, name string, src *source) error {
	// A pool may take minutes for that, or never end: the slot is for others meanwhile.
	d.give()
	d.watch.enter(creating)
	if err := store.Create(ctx, name, src.length, src.length); err != nil {
		return err
	}
	if err := d.take(ctx); err != nil {
		return err
	}
	d.watch.enter(sending)
	err := store.Upload(ctx, name, src, src.length)
	if src.err != nil {
		return src.err
	}
	if err != nil {
		return err
	}
	if f := src.verify(d.target.sum); f != nil {
		return f
	}
	return nil
}
