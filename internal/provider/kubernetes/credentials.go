package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// UpdateCredentials writes the new hash into the Secret, if it is the one that was read with the marks of the named attempt,
// and notes the revision at the Pod, which makes the kubelet renew the file. An instance that was created without
// credentials cannot take any.
func (p *Provider) UpdateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	ctx = p.calling(ctx, opUpdate, ref.ID)
	err := p.updateCredentials(ctx, ref, creds)
	outcome(ctx, err)
	return err
}

const opUpdate = "updatecredentials"

func (p *Provider) updateCredentials(ctx context.Context, ref provider.Ref, creds provider.Credentials) error {
	at, err := p.placeOf(opUpdate, ref.ID)
	if err != nil {
		return err
	}
	if err := checkCredentials(creds); err != nil {
		return provider.Wrap(provider.ErrPermanent, opUpdate, p.name, ref.ID, err)
	}
	passed := p.window.Passed(ref) // before anything is read, as in Get
	ctx, cancel := p.bound(ctx)
	defer cancel()
	found, err := p.look(ctx, at)
	if err != nil {
		return p.fail(opUpdate, ref.ID, err)
	}
	if err := p.rotatable(ctx, ref, at, found, passed); err != nil {
		return err
	}
	if secret := found.secret; secret.Annotations[annotationRevision] != creds.Revision {
		hashed, err := htpasswd(creds)
		if err != nil {
			return provider.Wrap(provider.ErrPermanent, opUpdate, p.name, ref.ID, err)
		}
		// UID and resourceVersion are those that were read: another Secret, or another's write, is a conflict.
		secret.Data = map[string][]byte{authFile: hashed}
		secret.Annotations[annotationRevision] = creds.Revision
		if err := p.api.updateSecret(ctx, secret); err != nil {
			return p.fail(opUpdate, ref.ID, err)
		}
	}
	if found.pod.Annotations[annotationRevision] == creds.Revision {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": found.pod.UID, "annotations": map[string]string{annotationRevision: creds.Revision},
	}})
	if err == nil {
		err = p.api.patchPod(ctx, at, patch)
	}
	if err != nil {
		return p.fail(opUpdate, ref.ID, err)
	}
	return nil
}

// rotatable returns nil when the named attempt stands there with all that new credentials need.
func (p *Provider) rotatable(ctx context.Context, ref provider.Ref, at place, found parts, passed bool) error {
	if found.empty() {
		if !passed {
			return provider.Wrap(provider.ErrTransient, opUpdate, p.name, ref.ID, errors.New(nothingYet))
		}
		if err := p.api.namespace(ctx, at.namespace); err != nil {
			return p.fail(opUpdate, ref.ID, err)
		}
		return provider.Wrap(provider.ErrNotFound, opUpdate, p.name, ref.ID, nil)
	}
	if err := p.sameAttempt(opUpdate, ref, found); err != nil {
		return err
	}
	switch {
	case found.pod == nil:
		return provider.Wrap(provider.ErrTransient, opUpdate, p.name, ref.ID, errors.New("there is no Pod"))
	case !slices.ContainsFunc(found.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == authVolume }):
		return provider.Wrap(provider.ErrPermanent, opUpdate, p.name, ref.ID, errors.New("the instance was created without credentials"))
	case found.secret == nil:
		// Whatever comes into being does so inside of a Create alone.
		return provider.Wrap(provider.ErrPermanent, opUpdate, p.name, ref.ID, errors.New("the Pod's Secret is gone; ask for a replacement"))
	}
	return nil
}
