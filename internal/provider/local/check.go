package local

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"sync"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// Reasons of a host's status besides the shared ones: each has a cure of its own.
const (
	CheckStateDirMissing     = "StateDirMissing"
	CheckStateDirReplaced    = "StateDirReplaced"
	CheckStateDirReadOnly    = "StateDirReadOnly"
	CheckStateDirFull        = "StateDirFull"
	CheckBinaryMissing       = "BinaryMissing"
	CheckBinaryNotExecutable = "BinaryNotExecutable"
	CheckAddressMissing      = "AddressMissing"
)

// checkError says what a check has found.
type checkError struct {
	reason string
	err    error
}

func (e *checkError) Error() string { return e.err.Error() }
func (e *checkError) Unwrap() error { return e.err }

// Check looks at what a creation needs of this host: the executable, the state folder with its lock and room, and the
// addresses of the pool. The one target is the host. Nothing is made; that every slot is taken is no fault and shows in the
// details. It returns when ctx ends or after five seconds, also where the folder's file system hangs.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	ctx, cancel := p.bound(ctx)
	defer cancel()
	for ctx.Err() == nil {
		l := p.inspections.join(ctx, p.look)
		select {
		case <-l.done:
		case <-ctx.Done():
		}
		if s, ok := p.inspections.leave(l); ok {
			return []provider.TargetStatus{s}
		}
	}
	return []provider.TargetStatus{{
		Target: p.host, Reason: provider.CheckTimeout, Details: map[string]string{},
		Message: "no answer in time: the state folder hangs, or another process keeps it locked",
	}}
}

// look inspects the host.
func (p *Provider) look(ctx context.Context) provider.TargetStatus {
	s := provider.TargetStatus{Target: p.host, Details: map[string]string{}}
	began := time.Now()
	err := p.inspect(ctx, s.Details)
	s.Latency = time.Since(began)
	if err != nil {
		s.Reason, s.Message = checkReason(ctx, err), message.Clean(err.Error())
		return s
	}
	s.Ready, s.Reason = true, provider.CheckReachable
	return s
}

// checkReason puts a failed check into one word.
func checkReason(ctx context.Context, err error) string {
	if e, ok := errors.AsType[*checkError](err); ok {
		return e.reason
	}
	switch {
	case ctx.Err() != nil:
		return provider.CheckTimeout
	case errors.Is(err, errReplaced):
		return CheckStateDirReplaced
	case errors.Is(err, fs.ErrNotExist):
		return CheckStateDirMissing
	case errors.Is(err, fs.ErrPermission):
		return provider.CheckForbidden
	case errors.Is(err, fs.ErrClosed):
		return provider.CheckUnreachable
	}
	return provider.CheckAPIError
}

// inspections make checks side by side share one look at the host. A look can be stuck in the kernel for as long as a file system
// hangs: there is never a second one beside it.
type inspections struct {
	mu      sync.Mutex
	current *inspection
}

type inspection struct {
	done   chan struct{}
	cancel context.CancelFunc
	// waiting counts those who want to know. Once there is nobody the look is abandoned, and what it says means nothing.
	waiting   int
	abandoned bool
	ended     bool
	status    provider.TargetStatus
}

// join returns the look that is under way, or begins one. Whoever joins has to leave.
func (s *inspections) join(ctx context.Context, do func(context.Context) provider.TargetStatus) *inspection {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.current
	if l == nil {
		// It ends with the last of those who wait for it, not with the first.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		l = &inspection{done: make(chan struct{}), cancel: cancel}
		s.current = l
		go func() {
			defer close(l.done)
			defer cancel()
			status := do(ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			l.status, l.ended, s.current = status, true, nil
		}()
	}
	l.waiting++
	return l
}

// leave returns what the look has found, ok false where it has not ended or was given up before.
func (s *inspections) leave(l *inspection) (status provider.TargetStatus, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.waiting--
	if l.ended && !l.abandoned {
		status = l.status
		status.Details = maps.Clone(status.Details)
		return status, true
	}
	if l.waiting == 0 {
		l.abandoned = true
		l.cancel()
	}
	return status, false
}
