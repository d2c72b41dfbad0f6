package baseimage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	defaultPrefix    = "epx-base-"
	defaultMaxLength = 64 << 30
	// largestLength keeps calculations with lengths in their range.
	largestLength = 1 << 50
)

// What ends a download that has not failed.
var (
	errClosed  = errors.New("closed")
	errDropped = errors.New("dropped")
)

// Options are what a Cache needs. Only Open has no default.
type Options struct {
	// Host is its name, for logs and spans.
	Host string
	// Prefix begins the names of all volumes; epx-base- when empty. Caches with the same prefix share their images.
	Prefix string
	// Clock is the real one when nil.
	Clock clock.WithTicker
	// HTTPClient is copied; its own rules for redirects and its Timeout are not used. Nil is one that takes proxies from the
	// environment, and speaks HTTP/1.1 alone: with HTTP/2, each download may take up to 4 MiB of memory.
	HTTPClient *http.Client
	// Open makes a connection for one download, closed by it. It blocks until it is there or ctx ends. Its errors are judged
	// as those of a Store.
	Open func(ctx context.Context) (Store, io.Closer, error)
	// MaxLength is how long a download may be, in bytes; 64 GiB when 0.
	MaxLength int64
	// Slots, where set, holds one element per running download; others wait until there is room. Caches may share it.
	Slots chan struct{}
}

// Cache brings images into one host's pool. It is safe for concurrent use. Close it.
type Cache struct {
	opts   Options
	names  names
	client *http.Client

	mu       sync.Mutex
	closed   bool
	entries  map[target]*entry
	failures map[attempt]*failure
	wg       sync.WaitGroup
}

// entry is what is known of an image in this process.
type entry struct {
	running *run
	// debris are volumes of this process that it could not remove.
	debris []string
	// verified is a copy that this process could not publish.
	verified *verified
}

type run struct {
	url    string
	cancel context.CancelCauseFunc
	source atomic.Pointer[source]
	// looked is when somebody was last sent to look into the pool meanwhile.
	looked time.Time
}

type verified struct {
	name string
	size int64 // virtual, in bytes
}

// attempt is what a failure is of: another URL may be better.
type attempt struct {
	target
	url string
}

type failure struct {
	what  *Failure // without the image's name: each may call it otherwise
	count int      // in a row
	until time.Time
}

// New returns a cache that does nothing before it is asked.
func New(opts Options) *Cache {
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Prefix == "" {
		opts.Prefix = defaultPrefix
	}
	if opts.MaxLength <= 0 {
		opts.MaxLength = defaultMaxLength
	}
	opts.MaxLength = min(opts.MaxLength, largestLength)
	return &Cache{
		opts: opts, names: newNames(opts.Prefix), client: newClient(opts.HTTPClient),
		entries: map[target]*entry{}, failures: map[attempt]*failure{},
	}
}

// Find looks for the image in the pool, and changes nothing. It blocks as long as the store's list; its errors are the
// store's, or a *Failure where checksum or format of img are not valid.
func (c *Cache) Find(ctx context.Context, store Store, img Image) (Base, bool, error) {
	t, f := img.target()
	if f != nil {
		return Base{}, false, f
	}
	volumes, err := store.Volumes(ctx, c.names.marks(t))
	if err != nil {
		return Base{}, false, err
	}
	base, ok := c.names.published(volumes, t)
	return base, ok, nil
}

// lookAgain is how long the word of a running download spares others to look into the pool. Another process may have
// published the image before.
const lookAgain = 10 * time.Second

// Running says how far a download of the image is, for the many who wait for it. It is nil if this process has none under way,
// and every 10 s for one who is to look into the pool again. It does not block.
func (c *Cache) Running(img Image) *Progress {
	t, f := img.target()
	if f != nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[t]; e != nil && e.running != nil {
		now := c.opts.Clock.Now()
		if now.Sub(e.running.looked) >= lookAgain {
			e.running.looked = now
			return nil
		}
		return &Progress{Image: img.Name, Percent: e.running.source.Load().percent()}
	}
	return nil
}

// Prepare sees to it that the image gets into the pool, for whoever has not found it there. It never blocks: it starts a
// download unless one runs or has just failed, and says how things stand, with an error in any case: *Progress while a
// download runs, *Failure until the next one is due. A download that finds the image in the pool ends at once.
//
// ctx lends logger and span, for a link; the download outlives it.
func (c *Cache) Prepare(ctx context.Context, img Image) error {
	t, f := img.target()
	if f != nil {
		return f
	}
	u, f := img.location()
	if f != nil {
		return f
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fail(provider.ErrTransient, "the provider is closed").of(img)
	}
	e := c.entry(t)
	if e.running != nil {
		return &Progress{Image: img.Name, Percent: e.running.source.Load().percent()}
	}
	if last := c.failures[attempt{t, img.URL}]; last != nil {
		if left := last.until.Sub(c.opts.Clock.Now()); left > 0 {
			now := last.what.of(img)
			now.RetryAfter = left
			return now
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	e.running = &run{url: img.URL, cancel: cancel, looked: c.opts.Clock.Now()}
	d := &download{cache: c, image: img, url: u, target: t, run: e.running, debris: e.debris, verified: e.verified}
	c.wg.Go(func() {
		err := d.do(ctx)
		cause := context.Cause(ctx)
		cancel(nil)
		c.ended(d, err, cause)
	})
	return &Progress{Image: img.Name}
}

// entry needs mu.
func (c *Cache) entry(t target) *entry {
	e := c.entries[t]
	if e == nil {
		e = &entry{}
		c.entries[t] = e
	}
	return e
}

// ended takes over what a download leaves.
func (c *Cache) ended(d *download, err *Failure, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(d.target)
	e.running, e.debris, e.verified = nil, d.debris, d.verified
	key := attempt{d.target, d.image.URL}
	switch {
	case err == nil:
		for k := range c.failures {
			if k.target == d.target {
				delete(c.failures, k)
			}
		}
	case cause != errClosed && cause != errDropped:
		last := c.failures[key]
		if last == nil {
			last = &failure{}
			c.failures[key] = last
		}
		last.count++
		last.what, last.until = err, c.opts.Clock.Now().Add(err.backoff(last.count))
	}
	if len(e.debris) == 0 && e.verified == nil {
		delete(c.entries, d.target)
	}
}

// Drop ends a download of the image from its URL, and forgets how earlier ones failed. What is in the pool stays there. It
// does not wait.
func (c *Cache) Drop(img Image) {
	t, f := img.target()
	if f != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.failures, attempt{t, img.URL})
	if e := c.entries[t]; e != nil && e.running != nil && e.running.url == img.URL {
		e.running.cancel(errDropped)
	}
}

// Close ends all downloads and waits until they have removed what they began, up to some 15 seconds. It may be called
// again. Find works on.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, e := range c.entries {
		if e.running != nil {
			e.running.cancel(errClosed)
		}
	}
	c.mu.Unlock()
	c.wg.Wait()
}
