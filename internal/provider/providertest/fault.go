package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// The steps at which a Stateful provider reaches its backend; a hook sees them as op.
const (
	OpCreateRead   = "create/read"   // Create looks at what stands under the ID
	OpCreate       = "create"        // Create sends
	OpGetOperation = "get/operation" // Get asks how the creation went (KindGCP only)
	OpGet          = "get"           // Get reads the instance, its last step
	OpDeleteRead   = "delete/read"   // Delete looks for the attempt's identity
	OpDelete       = "delete"        // Delete sends
	OpList         = "list"          // ListByTag
	OpUpdateRead   = "updatecredentials/read"
	OpUpdate       = "updatecredentials"
)

// Fault is what befalls one call to the backend. The zero value is none.
type Fault struct {
	// Hold, where set, pauses the call on its way until the channel is closed or the call's context ends.
	Hold <-chan struct{}
	// Err is what the caller gets, classified by the class of provider errors in its chain, otherwise ErrTransient.
	// The call has no effect unless Applied or ArriveAfter say so.
	Err error
	// RetryAfter goes with Err as the delay the backend asks for.
	RetryAfter time.Duration
	// Applied makes the effect happen although the caller gets Err, or a time-out where Err is nil.
	Applied bool
	// ArriveAfter lets the call reach the backend only after that time. The caller gets Err, or a time-out.
	ArriveAfter time.Duration
	// VisibleAfter delays the effect of an accepted call further.
	VisibleAfter time.Duration
	// FailLate makes an accepted creation or deletion fail later, a creation for this reason.
	FailLate error
	// LeaveParts makes a failing creation, or an otherwise successful deletion, leave a disk behind.
	LeaveParts bool
}

// OnCall installs the hook that decides about faults; nil removes it. The hook runs without any lock held: it may call
// the backend, step the clock or panic (a crash at that very call). ref is empty for a list.
func (b *Backend) OnCall(hook func(op string, ref provider.Ref) Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hook = hook
}

// Calls returns how many calls of that step the backend has seen, refused and lost ones included.
func (b *Backend) Calls(op string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[op]
}

// InFlight returns how many calls have left their callers and not arrived yet.
func (b *Backend) InFlight() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	return b.inFlight
}

var (
	errExists      = errors.New("the name is taken")
	errAbsent      = errors.New("there is no such instance")
	errCapacity    = errors.New("the zone is full")
	errUnreachable = errors.New("the zone cannot be reached")
	errTimeout     = errors.New("the call timed out")
)

// asked is an error with a delay that the backend asks for.
type asked struct {
	error
	delay time.Duration
}

func (a asked) Unwrap() error { return a.error }

// call sends one call about ref to a zone ("" for all zones) and gives effect the lock, the time of arrival and the
// fault.
func (b *Backend) call(ctx context.Context, op string, ref provider.Ref, zone string, effect func(now time.Time, f Fault) error) error {
	b.mu.Lock()
	b.calls[op]++
	hook := b.hook
	b.mu.Unlock()
	var f Fault
	if hook != nil {
		f = hook(op, ref)
	}
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.settle()
	answer := f.Err
	if f.Err != nil && f.RetryAfter > 0 {
		answer = asked{f.Err, f.RetryAfter}
	}
	if answer == nil && (f.Applied || f.ArriveAfter > 0) {
		answer = errTimeout
	}
	switch {
	case f.ArriveAfter > 0:
		b.inFlight++
		b.after(now, f.ArriveAfter, func(at time.Time) {
			b.inFlight--
			if !b.unread[zone] {
				_ = effect(at, f) // nobody is left to hear it
			}
		})
		return answer
	case f.Err != nil && !f.Applied:
		return answer
	case b.unread[zone]:
		return fmt.Errorf("%w: %s", errUnreachable, zone)
	}
	err := effect(now, f)
	if answer != nil {
		return answer
	}
	return err
}
