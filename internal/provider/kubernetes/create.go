package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// cleanTimeout bounds taking away what a refused creation has left; it runs although the call's own time may be over.
const cleanTimeout = 5 * time.Second

// Create makes the Secret, where there are credentials, and then the Pod. It returns when the API server has both. What
// stands there of the same attempt it completes.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	ctx = p.calling(ctx, "create", ref.ID)
	err := p.create(ctx, req, ref)
	outcome(ctx, err)
	return err
}

func (p *Provider) create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	const op = "create"
	if err := p.check(op, ref.ID, req); err != nil {
		return err
	}
	at := p.planned(req)
	if at.String() != ref.ID || req.UID != ref.UID {
		return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, fmt.Errorf("the plan leads to %s", at))
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	found, err := p.look(ctx, at)
	if err != nil {
		return p.fail(op, ref.ID, err)
	}
	if err := p.sameAttempt(op, ref, found); err != nil {
		return err
	}
	if found.pod != nil {
		logger(ctx).V(2).Info("the Pod is there already")
		return nil // it is made last, so all of it was
	}
	m := p.owner.MarksFor(req, ref)
	pod := p.pod(at, req, m)
	var made types.UID
	switch {
	case req.Credentials == nil:
	case found.secret != nil:
		// It may be older than the credentials asked for; the Pod says what it gets, so that the difference shows.
		pod.Annotations[annotationRevision] = found.secret.Annotations[annotationRevision]
	default:
		secret, err := p.secret(at, req, m)
		if err != nil {
			return provider.Wrap(provider.ErrPermanent, op, p.name, ref.ID, err)
		}
		stored := &corev1.Secret{}
		if err := p.send(ctx, ref, at, secrets, secret, stored); err != nil {
			return err
		}
		made = stored.UID
	}
	err = p.send(ctx, ref, at, pods, pod, &corev1.Pod{})
	// Whoever else has the name, and whoever refuses, there will be no Pod for the Secret; after any other error there may be.
	taken := errors.Is(err, provider.ErrConflict) || provider.Reason(err) == provider.ReasonAttemptMismatch
	if made != "" && (taken || refusedForGood(err)) {
		return p.takeBack(ctx, at, made, err)
	}
	return err
}

// send makes one object, unless the record is too old by now. That it is there already is fine if it is of this attempt.
func (p *Provider) send(ctx context.Context, ref provider.Ref, at place, resource string, object, into runtime.Object) error {
	const op = "create"
	if err := p.window.CheckSend(p.name, ref); err != nil {
		return err
	}
	left := p.window.Deadline(ref).Sub(p.window.Clock.Now())
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err := p.api.create(ctx, resource, at, left, object, into)
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return p.fail(op, ref.ID, err)
		}
		return nil
	}
	found, lookErr := p.look(ctx, at)
	if lookErr != nil {
		return p.fail(op, ref.ID, lookErr)
	}
	if found.empty() {
		return provider.Wrap(provider.ErrTransient, op, p.name, ref.ID, errors.New("what stood there has gone meanwhile"))
	}
	return p.sameAttempt(op, ref, found)
}

// takeBack removes the Secret that this very call has made for a Pod that there will not be. Should that fail, Get shows the
// rest and Delete removes it.
func (p *Provider) takeBack(ctx context.Context, at place, made types.UID, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if err := p.api.delete(ctx, secrets, at, made); err != nil && !absent(err, secrets, at) && !apierrors.IsConflict(err) {
		logger(ctx).V(1).Info("the Secret of a refused Pod is left")
	}
	return why
}
