package scale

import (
	"context"
	"sync"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// The operations of a provider, as the cloud records them.
const (
	opPlan   = "plan"
	opCreate = "create"
	opGet    = "get"
	opDelete = "delete"
	opList   = "list"
	opUpdate = "updatecredentials"
)

// call is one call that reached the cloud. Plan is none: it has no side effect and asks nobody.
type call struct {
	op     string
	ref    provider.Ref
	target string
	began  time.Time
	ended  time.Time // zero while it is under way
	err    error
}

// fault is what befalls a call; the zero value is none.
type fault struct {
	// err is what the caller gets after the call's time. Such a call has no effect.
	err error
	// takes is how long the call takes instead of the cloud's latency.
	takes time.Duration
	// hangs: the call is never answered and ends with its context.
	hangs bool
	// lost: a call that hangs has taken effect all the same.
	lost bool
}

// cloud is a provider whose calls take time, can fail and are on record. What they do is the backend's.
type cloud struct {
	name    string
	direct  *providertest.Stateful
	latency time.Duration

	mu       sync.Mutex
	fault    func(op string, ref provider.Ref, req provider.CreateRequest) fault
	targetOf func(provider.Ref) string
	calls    []*call
	inFlight map[string]int
	peak     map[string]int // the most calls in flight at one time, by target
}

var _ provider.Provider = (*cloud)(nil)

// Plan implements provider.Provider.
func (c *cloud) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if f := c.befalls(opPlan, provider.Ref{UID: req.UID}, req); f.err != nil {
		return "", f.err
	}
	return c.direct.Plan(ctx, req)
}

// Create implements provider.Provider.
func (c *cloud) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	return c.call(ctx, opCreate, ref, req, func() error { return c.direct.Create(ctx, req, ref) })
}

// Get implements provider.Provider.
func (c *cloud) Get(ctx context.Context, ref provider.Ref) (inst *provider.Instance, err error) {
	err = c.call(ctx, opGet, ref, provider.CreateRequest{}, func() error {
		inst, err = c.direct.Get(ctx, ref)
		return err
	})
	return inst, err
}

// Delete implements provider.Provider.
func (c *cloud) Delete(ctx context.Context, ref provider.Ref) error {
	return c.call(ctx, opDelete, ref, provider.CreateRequest{}, func() error { return c.direct.Delete(ctx, ref) })
}

// ListByTag implements provider.Provider.
func (c *cloud) ListByTag(ctx context.Context) (listing provider.Listing, err error) {
	err = c.call(ctx, opList, provider.Ref{}, provider.CreateRequest{}, func() error {
		listing, err = c.direct.ListByTag(ctx)
		return err
	})
	return listing, err
}

// updatingCloud is a cloud that changes the credentials of running instances.
type updatingCloud struct{ *cloud }

// UpdateCredentials implements provider.CredentialUpdater.
func (c updatingCloud) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	return c.call(ctx, opUpdate, ref, provider.CreateRequest{}, func() error {
		return providertest.Updating{Stateful: c.direct}.UpdateCredentials(ctx, ref, creds)
	})
}

// zonedCloud is a cloud that can fail in parts.
type zonedCloud struct{ *cloud }

// Target implements provider.Targeter.
func (c zonedCloud) Target(ref provider.Ref) string { return c.targetOf(ref) }

// call lets time pass, then either fails or does it.
func (c *cloud) call(ctx context.Context, op string, ref provider.Ref, req provider.CreateRequest, do func() error) (err error) {
	f := c.befalls(op, ref, req)
	this := c.enter(op, ref)
	defer func() { c.leave(this, err) }()
	takes := c.latency
	if f.takes > 0 {
		takes = f.takes
	}
	if f.lost {
		_ = do() // nobody hears how it went
	}
	if f.hangs {
		<-ctx.Done()
		return c.wrap(provider.ErrTransient, op, ref, ctx.Err())
	}
	select {
	case <-ctx.Done():
		return c.wrap(provider.ErrTransient, op, ref, ctx.Err())
	case <-time.After(takes):
	}
	if f.err != nil {
		return f.err
	}
	return do()
}

func (c *cloud) wrap(class error, op string, ref provider.Ref, err error) *provider.Error {
	return provider.Wrap(class, op, c.name, ref.ID, err)
}

// breakBy makes calls meet faults from now on; nil mends the cloud.
func (c *cloud) breakBy(f func(op string, ref provider.Ref, req provider.CreateRequest) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *cloud) befalls(op string, ref provider.Ref, req provider.CreateRequest) fault {
	c.mu.Lock()
	f := c.fault
	c.mu.Unlock()
	if f == nil {
		return fault{}
	}
	return f(op, ref, req)
}

func (c *cloud) enter(op string, ref provider.Ref) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	this := &call{op: op, ref: ref, began: time.Now()}
	if c.targetOf != nil && op != opList {
		this.target = c.targetOf(ref)
	}
	c.calls = append(c.calls, this)
	if op != opList { // a list is about all targets, and there is one at a time
		c.inFlight[this.target]++
		c.peak[this.target] = max(c.peak[this.target], c.inFlight[this.target])
	}
	return this
}

func (c *cloud) leave(this *call, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	this.ended, this.err = time.Now(), err
	if this.op != opList {
		c.inFlight[this.target]--
	}
}

// since returns the calls of the ops (of all, without any) that began at the given time or later.
func (c *cloud) since(t time.Time, ops ...string) (found []call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		match := len(ops) == 0
		for _, op := range ops {
			match = match || op == one.op
		}
		if match && !one.began.Before(t) {
			found = append(found, *one)
		}
	}
	return found
}

// busiest returns the most calls that began within any one span of the given length.
func busiest(calls []call, span time.Duration) (most int) {
	first := 0
	for i := range calls { // they are in the order of their beginning
		for calls[i].began.Sub(calls[first].began) >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// resetPeak returns the most calls that were in flight at one time to any one target, and starts over.
func (c *cloud) resetPeak() (most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for target, n := range c.peak {
		most = max(most, n)
		c.peak[target] = c.inFlight[target]
	}
	return most
}
