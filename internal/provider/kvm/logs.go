package kvm

import (
	"context"

	"github.com/go-logr/logr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// What is logged, always with the caller's logger:
//
//	V(1)  how each call of the provider ended, and each call to a daemon that failed (package session)
//	V(2)  each other call to a daemon, and what a call came to know
//
// Domains and volumes are named; what is in a seed is never shown.

// Each line has the host and the domain's name, which are empty where it is about all of them.

// call is what lines about one call of the provider have in common.
type call struct{ provider, op, id, host, name string }

type callKey struct{}

// calling returns ctx for one call of the provider. Its logger stays as it is, since others log with it, too; logger adds
// what the call is.
func (p *Provider) calling(ctx context.Context, op, id string) context.Context {
	c := call{provider: p.name, op: op, id: id}
	if at, _, err := p.placeOf(op, id); err == nil {
		c.host, c.name = at.host, at.name
	}
	return context.WithValue(ctx, callKey{}, c)
}

// logger returns the logger for lines about the call that ctx is for.
func logger(ctx context.Context) logr.Logger {
	log := logf.FromContext(ctx).WithName(Type)
	if c, ok := ctx.Value(callKey{}).(call); ok {
		log = log.WithValues(append(c.values(), "host", c.host)...)
	}
	return log
}

// placed returns ctx for what the call does on one host, with one domain if it is named.
func placed(ctx context.Context, at place) context.Context {
	c, _ := ctx.Value(callKey{}).(call)
	c.host, c.name = at.host, at.name
	return context.WithValue(ctx, callKey{}, c)
}

// linedKey marks a ctx whose logger has the values of the call.
type linedKey struct{}

// lined returns ctx for a call to a daemon: package session, which writes the line about that, names the host alone. What is
// prepared for a call makes calls to a daemon, too; those are lined already.
func lined(ctx context.Context) context.Context {
	log := logf.FromContext(ctx)
	c, ok := ctx.Value(callKey{}).(call)
	if !ok || !log.V(1).Enabled() || ctx.Value(linedKey{}) != nil {
		return ctx
	}
	return context.WithValue(logf.IntoContext(ctx, log.WithValues(c.values()...)), linedKey{}, true)
}

// values are those besides the host.
func (c call) values() []any {
	v := []any{"provider", c.provider, "op", c.op, "domain", c.name}
	if c.id != "" {
		v = append(v, "id", c.id)
	}
	return v
}

// detailed reports whether lines of V(2) are written, so that nothing is prepared for them in vain.
func detailed(ctx context.Context) bool { return logf.FromContext(ctx).V(2).Enabled() }

// outcome logs how the call ended that ctx is for. The class is the one that metrics and spans have.
func outcome(ctx context.Context, err error) {
	if err != nil {
		logger(ctx).V(1).Info("call failed", "class", provider.ClassName(err), "error", provider.Cause(err))
		return
	}
	logger(ctx).V(1).Info("call succeeded", "class", provider.ClassName(nil))
}

// saw logs what a read has shown of an instance.
func saw(ctx context.Context, inst *provider.Instance) {
	if inst == nil || !detailed(ctx) {
		return
	}
	logger(ctx).V(2).Info("instance", "state", inst.State, "attempt", inst.Marks.Attempt, "identity", inst.Identity, "message", inst.Message)
}
