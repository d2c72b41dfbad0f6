package gcp

import (
	"context"

	"github.com/go-logr/logr"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// What is logged, always with the caller's logger:
//
//	V(1)  how each call of the provider ended, and each request to the API that failed
//	V(2)  each other request, and what a call came to know
//	V(5)  the wire, see wireLog

// call is what lines about one call of the provider have in common.
type call struct{ provider, op, id string }

type callKey struct{}

// calling returns ctx for one call of the provider. Its logger stays as it is, since others log with it, too; logger adds
// what the call is.
func (p *Provider) calling(ctx context.Context, op, id string) context.Context {
	return context.WithValue(ctx, callKey{}, call{p.name, op, id})
}

// logger returns the logger for lines about the call that ctx is for.
func logger(ctx context.Context) logr.Logger {
	log := logf.FromContext(ctx).WithName(Type)
	c, ok := ctx.Value(callKey{}).(call)
	if !ok {
		return log
	}
	log = log.WithValues("provider", c.provider, "op", c.op)
	if c.id != "" {
		log = log.WithValues("id", c.id)
	}
	return log
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

// done logs how a request ended and says in the error which one it was.
func done(ctx context.Context, v verb, resource, name string, err error) error {
	if err != nil {
		err = &callError{v, resource, name, err}
	}
	switch {
	case err != nil && !absent(err):
		logger(ctx).V(1).Info("API call failed", "verb", string(v), "resource", resource, "object", name,
			"class", provider.ClassName(&provider.Error{Class: classify(err).class, Err: err}), "error", said(err).Error())
	case !detailed(ctx):
	case err != nil: // that something is not there is an answer
		logger(ctx).V(2).Info("API call", "verb", string(v), "resource", resource, "object", name, "absent", true)
	default:
		logger(ctx).V(2).Info("API call", "verb", string(v), "resource", resource, "object", name)
	}
	return err
}

// saw logs what a read has shown of an instance.
func saw(ctx context.Context, inst *provider.Instance) {
	if inst == nil || !detailed(ctx) {
		return
	}
	logger(ctx).V(2).Info("instance", "state", inst.State, "attempt", inst.Marks.Attempt, "identity", inst.Identity, "message", inst.Message)
}

func sawList(ctx context.Context, l provider.Listing) {
	if detailed(ctx) {
		logger(ctx).V(2).Info("instances", "count", len(l.Instances), "unread", l.Unread)
	}
}
