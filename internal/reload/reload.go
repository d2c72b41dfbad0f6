package reload

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/filewatch"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	// DefaultRetry is after how long refused entries are tried again.
	DefaultRetry = 30 * time.Second
	// DefaultSettle is for how long the file has to stay as it is before it is taken over.
	DefaultSettle = time.Second
)

// Results of a reload, as Recorder gets them.
const (
	// Success: the file's content is in force.
	Success = "success"
	// Refused: it is, but for some entries.
	Refused = "refused"
	// Invalid: it cannot be used.
	Invalid = "invalid"
	// Unreadable: there is none.
	Unreadable = "unreadable"
)

// Registry is where the providers are.
type Registry interface {
	// Reload makes entries the ones in force; see registry.Registry.
	Reload(ctx context.Context, entries []registry.Entry, inUse registry.InUse) registry.Result
}

// Recorder takes in what is measured. Its methods do not block.
type Recorder interface {
	// Reloaded counts one reload by its result, with the entries that are refused now.
	Reloaded(result string, refused int, at time.Time)
}

// Changes are the entries that a reload has changed, by name, sorted.
type Changes struct{ Added, Changed, Removed []string }

// Empty reports whether nothing has changed.
func (c Changes) Empty() bool { return len(c.Added)+len(c.Changed)+len(c.Removed) == 0 }

// Options are what a Reloader needs; all but Retry and Settle are required.
type Options struct {
	// Path of the file, Known its content that is in force already.
	Path  string
	Known []byte
	// Types are the known types of providers.
	Types    []string
	Registry Registry
	InUse    registry.InUse
	Clock    clock.WithTicker
	Log      logr.Logger
	Metrics  Recorder
	// Retry is after how long refused entries are tried again, Settle for how long the file has to stay as it is; the
	// defaults when 0.
	Retry, Settle time.Duration
	// OnReload is called after each reload, whatever came of it, with what has changed; Problem tells of this one by then. It
	// must not block.
	OnReload func(Changes)
}

// Reloader follows the file.
type Reloader struct {
	o Options

	mu      sync.Mutex
	problem string            // of the file as a whole
	refused map[string]string // by entry
}

// New returns a reloader; it does nothing before Start.
func New(o Options) *Reloader {
	if o.Retry == 0 {
		o.Retry = DefaultRetry
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	return &Reloader{o: o}
}

// NeedLeaderElection lets standbys follow the file, too.
func (r *Reloader) NeedLeaderElection() bool { return false }

// content is what the file held at one time, or why it could not be read.
type content struct {
	data []byte
	err  error
}

// Start follows the file until ctx ends. It blocks, and errors when the file's folder cannot be watched.
func (r *Reloader) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(logr.NewContext(ctx, r.o.Log))
	defer cancel()
	var both sync.WaitGroup
	defer both.Wait()
	// The newest content alone counts, and a reload takes its time.
	news := make(chan content, 1)
	both.Go(func() { r.follow(ctx, news) })
	w := filewatch.Watcher{
		Path: r.o.Path, Limit: registry.MaxFileSize, Clock: r.o.Clock, Known: r.o.Known, Settle: r.o.Settle,
		Changed: func(data []byte, err error) {
			select {
			case <-news:
			default:
			}
			news <- content{data, err} // one goroutine sends
		},
	}
	err := w.Run(ctx)
	cancel()
	return err
}

// follow takes over what comes, and tries refused entries again.
func (r *Reloader) follow(ctx context.Context, news <-chan content) {
	var pending []registry.Entry // the content in force, while entries of it are refused
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-news:
			pending = r.take(ctx, c)
		case <-again:
			pending = r.apply(ctx, pending, true)
		}
		again = nil
		if pending != nil {
			again = r.o.Clock.After(r.o.Retry)
		}
	}
}

// take takes over a content. It returns the entries that are to be tried again.
func (r *Reloader) take(ctx context.Context, c content) []registry.Entry {
	if c.err != nil {
		r.failed(Unreadable, c.err)
		return nil
	}
	entries, err := registry.Parse(c.data, r.o.Types)
	if err != nil {
		r.failed(Invalid, err)
		return nil
	}
	return r.apply(ctx, entries, false)
}

// apply puts entries in force as far as possible. It returns them if some are to be tried again.
func (r *Reloader) apply(ctx context.Context, entries []registry.Entry, again bool) []registry.Entry {
	result := r.o.Registry.Reload(ctx, entries, r.o.InUse)
	switch {
	case ctx.Err() != nil && result.Err == nil && len(result.Refused) > 0:
		return nil // stopping is why
	case result.Err != nil:
		// What an entry is built from may be about to come: a kubeconfig's Secret, a folder that is mounted late.
		if !again || r.Problem("") != problemOf(Invalid, result.Err) {
			r.failed(Invalid, result.Err)
		}
		return entries
	}
	r.applied(result, again)
	if len(result.Refused) > 0 {
		return entries
	}
	return nil
}

// failed notes that the file's content cannot be used.
func (r *Reloader) failed(result string, err error) {
	text := problemOf(result, err)
	r.set(text, nil)
	r.o.Log.Error(errors.New(text), "the providers' configuration cannot be used; the one before stays in force", "file", r.o.Path)
	r.o.Metrics.Reloaded(result, 0, r.o.Clock.Now())
	r.o.OnReload(Changes{})
}

// applied notes what has come of the file's content. Of another try that came to the same nothing is said.
func (r *Reloader) applied(result registry.Result, again bool) {
	refused := make(map[string]string, len(result.Refused))
	for _, one := range result.Refused {
		refused[one.Name] = refusalText(one)
	}
	news, differs := r.set("", refused)
	changes := Changes{Added: result.Added, Changed: result.Changed, Removed: result.Removed}
	if again && !differs && changes.Empty() {
		return
	}
	for _, one := range result.Refused {
		if slices.Contains(news, one.Name) {
			r.o.Log.Error(errors.New(refused[one.Name]), "a provider entry stays as it was; its change is tried again",
				"provider", one.Name, "reason", string(one.Why))
		}
	}
	outcome := Success
	if len(refused) > 0 {
		outcome = Refused
	}
	r.o.Log.Info("the providers' configuration was read again", "file", r.o.Path,
		"added", changes.Added, "changed", changes.Changed, "removed", changes.Removed, "refused", len(refused))
	r.o.Metrics.Reloaded(outcome, len(refused), r.o.Clock.Now())
	r.o.OnReload(changes)
}
