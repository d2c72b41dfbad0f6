package instrument

import (
	"context"
	"errors"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// planFreely makes a plan that asks no target.
func (g *guarded) planFreely(ctx context.Context, req provider.CreateRequest) (string, error) {
	ps, _ := ctx.Value(passKey{}).(*pass)
	g.mu.Lock()
	if err := g.retiring(ps, "plan", ""); err != nil {
		g.mu.Unlock()
		g.refused(RefusedRetired)
		return "", err
	}
	began := g.next()
	g.use(1)
	g.mu.Unlock()
	id, err := g.Provider.Plan(ctx, req)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.use(-1)
	if g.targeter == nil && errors.Is(provider.Class(err), provider.ErrDenied) {
		g.target("").failed(began, began, g.next(), g.clock.Now(), shutDenied, provider.Cause(err))
	}
	return id, err
}

// through makes one call to a target, in the place that the pass has there or in one of its own.
func (g *guarded) through(ctx context.Context, op, id, name string, do func() error) error {
	leave, began, placed, err := g.enter(ctx, op, id, name)
	if err != nil {
		return err
	}
	started := g.clock.Now()
	err = do()
	opened, why := g.learn(ctx, name, began, placed, started, err)
	leave()
	if why.news && g.onShut != nil {
		g.onShut(g.name)
	}
	if why.shut != shutNot && provider.RetryAfter(err) == 0 {
		return g.refuse(op, id, name, why, err)
	}
	if opened {
		g.tell(name)
	}
	return err
}

// learn notes how a call ended. It reports whether that has opened the target's gate, or as what it has found it shut.
func (g *guarded) learn(ctx context.Context, name string, began, placed order, started time.Time, err error) (opened bool, why refusal) {
	how, cause := shutNot, ""
	at := g.clock.Now()
	switch {
	case provider.Reason(err) == provider.ReasonUnreachable:
		how, cause = shutSilent, provider.Cause(err)
	case errors.Is(provider.Class(err), provider.ErrDenied):
		how, cause = shutDenied, provider.Cause(err)
	case err != nil && timedOut(ctx, err):
		if at.Sub(started) < leastPatience {
			return false, refusal{}
		}
		how = shutSilent
	case errors.Is(err, context.Canceled):
		return false, refusal{} // the caller gave up; that says nothing of the target
	}
	secrets, _ := ctx.Value(secretsKey{}).(*message.Secrets)
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.target(name)
	if how == shutNot {
		return t.answered(began, g.next(), at), refusal{}
	}
	news := t.failed(began, placed, g.next(), at, how, secrets.Hide(cause))
	if t.gate.shut != how {
		return false, refusal{}
	}
	return false, refusal{shut: how, cause: t.gate.cause, wait: t.gate.until.Sub(at), news: news}
}

type secretsKey struct{}

// WithSecrets returns a context for calls whose errors may quote secrets: one Proxy's must not show in the conditions of all
// others that wait for the same target. Nil hides nothing.
func WithSecrets(ctx context.Context, s *message.Secrets) context.Context {
	return context.WithValue(ctx, secretsKey{}, s)
}

func timedOut(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// tell says which gates have opened. The guard's lock is not held.
func (g *guarded) tell(opened ...string) {
	for _, name := range opened {
		if name == listTarget {
			name = ""
		}
		if g.onOpen != nil {
			g.onOpen(g.name, name)
		}
	}
}

// enter takes a place at a target and says as what in the order of things the call begins, and as what its place was taken. A
// pass keeps its place until it ends; leave gives back one that no pass keeps.
func (g *guarded) enter(ctx context.Context, op, id, name string) (leave func(), began, placed order, err error) {
	ps, _ := ctx.Value(passKey{}).(*pass)
	g.mu.Lock()
	defer g.mu.Unlock()
	began = g.next()
	if ps != nil && name != listTarget {
		if since, ok := ps.holds(g, name); ok {
			return func() {}, began, since, nil
		}
	}
	if err := g.retiring(ps, op, id); err != nil {
		g.refused(RefusedRetired)
		return nil, 0, 0, err
	}
	if why, ok := g.admitted(name); !ok {
		g.refused(why.word())
		return nil, 0, 0, g.refuse(op, id, listTarget, why, nil)
	}
	if why, ok := g.target(name).enter(g.clock.Now()); !ok {
		g.refused(why.word())
		return nil, 0, 0, g.refuse(op, id, name, why, nil)
	}
	g.use(1)
	if ps != nil && name != listTarget {
		ps.keep(g, name, began)
		return func() {}, began, began, nil
	}
	return func() { g.leave(name) }, began, began, nil
}

// admitted reports whether the provider as a whole accepts the operator, for all that its last list has told. Only lists
// find out, so that nobody else is a canary.
func (g *guarded) admitted(name string) (why refusal, ok bool) {
	lists := g.target(listTarget).gate
	if name == listTarget || lists.shut != shutDenied {
		return refusal{}, true
	}
	why, ok = lists.pass(g.clock.Now(), true)
	return why, ok
}

func (g *guarded) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target(name).inFlight--
	g.use(-1)
}
