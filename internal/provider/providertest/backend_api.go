package providertest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// failDelay passes between the visibility of a creation that fails late and its failure.
const failDelay = time.Second

// insertion is one request to create.
type insertion struct {
	id, zone, token string
	labels          map[string]string
	port            int32
	credentials     string
}

// insert accepts a creation. A known token is answered like the first time and has no further effect.
func (b *Backend) insert(ctx context.Context, ref provider.Ref, in insertion) error {
	return b.call(ctx, OpCreate, ref, in.zone, func(now time.Time, f Fault) error {
		if b.kind.tokens() && b.operation(in.token, now) != nil {
			return nil
		}
		if b.machines[in.id] != nil {
			return errExists
		}
		if b.capacity != 0 && b.used(in.zone) >= b.capacity {
			return errCapacity
		}
		op := &operation{}
		if b.kind.tokens() {
			b.operations[in.token] = op
		}
		m := b.newMachine(in.id, in.zone, in.labels)
		m.port, m.credentials = in.port, in.credentials
		b.machines[in.id] = m
		delay := b.opts.CreateDelay + f.VisibleAfter
		b.after(now, delay, func(at time.Time) { b.appear(m, at) })
		if f.FailLate == nil {
			b.after(now, delay, func(at time.Time) { op.ended = at })
			return nil
		}
		b.after(now, delay+failDelay, func(at time.Time) {
			op.ended, op.err = at, f.FailLate
			if f.LeaveParts {
				m.main, m.failure = false, f.FailLate
			} else {
				b.drop(m, at)
			}
		})
		return nil
	})
}

func (b *Backend) appear(m *machine, at time.Time) {
	m.visible, m.visibleAt, m.created, m.running = true, at, at, at.Add(b.bootDelay)
}

func (b *Backend) used(zone string) (n int) {
	for _, m := range b.machines {
		if m.zone == zone {
			n++
		}
	}
	return n
}

// operation returns what is remembered under token, nil for nothing.
func (b *Backend) operation(token string, now time.Time) *operation {
	op := b.operations[token]
	if op != nil && b.opts.TokenMemory > 0 && !op.ended.IsZero() && now.Sub(op.ended) > b.opts.TokenMemory {
		delete(b.operations, token)
		return nil
	}
	return op
}

// readOperation returns a copy of the creation's operation, nil where the backend remembers or shows none.
func (b *Backend) readOperation(ctx context.Context, ref provider.Ref, zone string) (op *operation, err error) {
	if b.kind != KindGCP {
		return nil, nil
	}
	err = b.call(ctx, OpGetOperation, ref, zone, func(now time.Time, _ Fault) error {
		if found := b.operation(provider.CreateToken(ref.UID, ref.Attempt), now); found != nil {
			copied := *found
			op = &copied
		}
		return nil
	})
	return op, err
}

// read returns a copy of what stands under the ID, errAbsent for nothing, and the time of the reading.
func (b *Backend) read(ctx context.Context, op string, ref provider.Ref, zone string) (m machine, at time.Time, err error) {
	err = b.call(ctx, op, ref, zone, func(now time.Time, _ Fault) error {
		found := b.machines[ref.ID]
		if found == nil || !found.visible {
			return errAbsent
		}
		m, at = *found, now
		return nil
	})
	return m, at, err
}

// remove accepts a deletion of exactly the machine with that identity.
func (b *Backend) remove(ctx context.Context, ref provider.Ref, zone, identity string) error {
	return b.call(ctx, OpDelete, ref, zone, func(now time.Time, f Fault) error {
		m := b.machines[ref.ID]
		if m == nil || !m.visible || m.identity != identity {
			return errAbsent
		}
		if m.deleting {
			return nil
		}
		m.deleting = true
		b.after(now, b.opts.DeleteDelay+f.VisibleAfter, func(at time.Time) {
			switch {
			case f.FailLate != nil:
				m.deleting = false
			case f.LeaveParts:
				m.deleting, m.main = false, false
			default:
				b.drop(m, at)
			}
		})
		return nil
	})
}

// update changes the credentials of exactly the machine with that identity.
func (b *Backend) update(ctx context.Context, ref provider.Ref, zone, identity, revision string) error {
	return b.call(ctx, OpUpdate, ref, zone, func(time.Time, Fault) error {
		m := b.machines[ref.ID]
		if m == nil || !m.visible || m.identity != identity {
			return errAbsent
		}
		m.credentials = revision
		return nil
	})
}

// list returns copies of everything in the zones that can be read, sorted by ID, and the zones that cannot.
func (b *Backend) list(ctx context.Context) (found []machine, at time.Time, unread []string, err error) {
	err = b.call(ctx, OpList, provider.Ref{}, "", func(now time.Time, _ Fault) error {
		at, unread = now, slices.Sorted(maps.Keys(b.unread))
		for m := range b.listed(now) {
			found = append(found, *m)
		}
		return nil
	})
	slices.SortFunc(found, func(x, y machine) int { return strings.Compare(x.id, y.id) })
	return found, at, unread, err
}

func (b *Backend) listed(now time.Time) map[*machine]bool {
	set := map[*machine]bool{}
	for _, m := range slices.Concat(slices.Collect(maps.Values(b.machines)), b.gone) {
		if m.visible && !b.unread[m.zone] && !m.visibleAt.Add(b.opts.ListLag).After(now) {
			set[m] = true
		}
	}
	return set
}
