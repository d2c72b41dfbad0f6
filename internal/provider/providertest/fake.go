package providertest

import (
	"context"
	"sync"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Call is one call that a Fake has seen.
type Call struct {
	// Op is plan, create, get, delete, list or updatecredentials.
	Op string
	// Request of plan and create.
	Request provider.CreateRequest
	// Ref of create, get, delete and updatecredentials.
	Ref provider.Ref
	// Credentials of updatecredentials.
	Credentials provider.Credentials
}

// Fake is a provider whose answers a test scripts: errors queued with Next come first, then the function fields, and
// whatever is neither queued nor set goes to a minimal correct provider in memory, where everything happens at once. It
// is safe for concurrent use, as long as the fields are set before.
type Fake struct {
	PlanFunc   func(ctx context.Context, req provider.CreateRequest) (string, error)
	CreateFunc func(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error
	GetFunc    func(ctx context.Context, ref provider.Ref) (*provider.Instance, error)
	DeleteFunc func(ctx context.Context, ref provider.Ref) error
	ListFunc   func(ctx context.Context) (provider.Listing, error)
	UpdateFunc func(ctx context.Context, ref provider.Ref, creds provider.Credentials) error

	backend *Backend
	base    Updating

	mu    sync.Mutex
	calls []Call
	next  map[string][]error
}

var (
	_ provider.Provider          = (*Fake)(nil)
	_ provider.CredentialUpdater = (*Fake)(nil)
)

// NewFake returns a fake under the entry's name. window.Clock drives it.
func NewFake(name string, owner provider.Owner, window provider.Window) *Fake {
	return NewBackend(KindName, window.Clock, BackendOptions{}).Fake(name, owner, window)
}

// Fake returns a fake on b, so that several can share one.
func (b *Backend) Fake(name string, owner provider.Owner, window provider.Window) *Fake {
	return &Fake{backend: b, base: Updating{b.Provider(name, owner, window)}, next: map[string][]error{}}
}

// Backend returns where unscripted calls go.
func (f *Fake) Backend() *Backend { return f.backend }

// Next queues errors for the coming calls of op, one each; nil lets a call through.
func (f *Fake) Next(op string, errs ...error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[op] = append(f.next[op], errs...)
}

// Calls returns the calls of the given ops in order, all calls without any op.
func (f *Fake) Calls(ops ...string) []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	var calls []Call
	for _, c := range f.calls {
		match := len(ops) == 0
		for _, op := range ops {
			match = match || op == c.Op
		}
		if match {
			calls = append(calls, c)
		}
	}
	return calls
}

// Reset forgets the calls seen so far.
func (f *Fake) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = nil
}

// enter records the call and returns the error queued for it.
func (f *Fake) enter(c Call) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, c)
	queue := f.next[c.Op]
	if len(queue) == 0 {
		return nil
	}
	f.next[c.Op] = queue[1:]
	return queue[0]
}

// Plan implements provider.Provider.
func (f *Fake) Plan(ctx context.Context, req provider.CreateRequest) (string, error) {
	if err := f.enter(Call{Op: "plan", Request: req}); err != nil {
		return "", err
	}
	if f.PlanFunc != nil {
		return f.PlanFunc(ctx, req)
	}
	return f.base.Plan(ctx, req)
}

// Create implements provider.Provider.
func (f *Fake) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	if err := f.enter(Call{Op: "create", Request: req, Ref: ref}); err != nil {
		return err
	}
	if f.CreateFunc != nil {
		return f.CreateFunc(ctx, req, ref)
	}
	return f.base.Create(ctx, req, ref)
}

// Get implements provider.Provider.
func (f *Fake) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	if err := f.enter(Call{Op: "get", Ref: ref}); err != nil {
		return nil, err
	}
	if f.GetFunc != nil {
		return f.GetFunc(ctx, ref)
	}
	return f.base.Get(ctx, ref)
}

// Delete implements provider.Provider.
func (f *Fake) Delete(ctx context.Context, ref provider.Ref) error {
	if err := f.enter(Call{Op: "delete", Ref: ref}); err != nil {
		return err
	}
	if f.DeleteFunc != nil {
		return f.DeleteFunc(ctx, ref)
	}
	return f.base.Delete(ctx, ref)
}

// ListByTag implements provider.Provider.
func (f *Fake) ListByTag(ctx context.Context) (provider.Listing, error) {
	if err := f.enter(Call{Op: "list"}); err != nil {
		return provider.Listing{}, err
	}
	if f.ListFunc != nil {
		return f.ListFunc(ctx)
	}
	return f.base.ListByTag(ctx)
}

// UpdateCredentials implements provider.CredentialUpdater.
func (f *Fake) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	if err := f.enter(Call{Op: "updatecredentials", Ref: ref, Credentials: creds}); err != nil {
		return err
	}
	if f.UpdateFunc != nil {
		return f.UpdateFunc(ctx, ref, creds)
	}
	return f.base.UpdateCredentials(ctx, ref, creds)
}
