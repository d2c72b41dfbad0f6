package proxy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
)

// desired is what the instance should be made from. known is false while something it depends on cannot be read.
type desired struct {
	known     bool
	input     provider.SpecInput
	mark      string
	cloudInit string
}

// blockedError says that the Proxy cannot be acted upon until somebody mends what it names.
type blockedError struct{ blocked }

func (e *blockedError) Error() string { return e.reason + ": " + e.message }

func block(reason, format string, args ...any) error {
	return &blockedError{blocked{reason, fmt.Sprintf(format, args...)}}
}

// resolveProvider finds the configured entry. What it misses blocks acting.
func (ps *pass) resolveProvider() {
	name := ps.p.Spec.Provider
	ps.handle, ps.configured = ps.r.Providers.Lookup(name)
	switch {
	case !ps.configured:
		ps.blocked = &blocked{v1alpha1.ReasonProviderNotConfigured, fmt.Sprintf("provider %q is not configured", name)}
	case !ps.handle.Allowed(ps.key.Namespace):
		ps.blocked = &blocked{v1alpha1.ReasonProviderNotConfigured, fmt.Sprintf("provider %q may not be used from namespace %q", name, ps.key.Namespace)}
	}
}

// resolve works out what the instance should be made from. Only an API error comes back: what the user has to mend
// ends in ps.blocked.
func (ps *pass) resolve(ctx context.Context) error {
	ps.resolveProvider()
	err := ps.resolveDesired(ctx)
	if b, ok := err.(*blockedError); ok { //nolint:errorlint // made right below, never wrapped
		if ps.blocked == nil {
			ps.blocked = &b.blocked
		}
		return nil
	}
	return err
}

func (ps *pass) resolveDesired(ctx context.Context) error {
	if err := ps.resolveAuth(ctx); err != nil {
		return err
	}
	template, err := ps.cloudInitTemplate(ctx)
	if err != nil {
		return err
	}
	values := map[string]string{varPort: fmt.Sprint(ps.p.Spec.ListenPort())}
	if ps.creds != nil {
		values[varUsername], values[varPassword] = ps.creds.Username, ps.creds.Password
	}
	rendered, used, err := render(template, values)
	if err != nil {
		return block(v1alpha1.ReasonCloudInitError, "%v", err)
	}
	place := ptr.Deref(ps.p.Spec.Placement, v1alpha1.Placement{})
	in := provider.SpecInput{
		UID:       string(ps.p.UID),
		Placement: provider.Placement{Region: place.Region, Zone: place.Zone, MachineType: place.MachineType, Image: place.Image},
		Port:      ps.p.Spec.ListenPort(),
		Template:  template,
		Values:    used,
	}
	if ps.configured && ps.creds != nil {
		in.CredentialRevision = ps.creds.Revision
		if _, rotates := instrument.As[provider.CredentialUpdater](ps.handle.Provider); rotates {
			// Other credentials go to the running instance; whether there are any at all is decided at its creation.
			in.CredentialRevision = "rotating"
		}
	}
	ps.want = desired{known: ps.configured, input: in, mark: provider.SpecMark(in), cloudInit: rendered}
	return nil
}

// resolveAuth reads the credentials that the spec names.
func (ps *pass) resolveAuth(ctx context.Context) error {
	auth := ps.p.Spec.Auth
	if auth == nil {
		return nil
	}
	s, err := ps.secret(ctx, ps.r.Auth.Get, auth.SecretRef.Name, v1alpha1.LabelProxyAuth, v1alpha1.ReasonAuthError)
	if err != nil {
		return err
	}
	creds, err := fleet.CredentialsFromSecret(s)
	if err != nil {
		return block(v1alpha1.ReasonAuthError, "%v", err)
	}
	ps.creds = creds
	return nil
}

func (ps *pass) cloudInitTemplate(ctx context.Context) (string, error) {
	ci := ps.p.Spec.CloudInit
	switch {
	case ci == nil:
		return "", nil
	case ci.SecretRef == nil:
		return ci.Inline, nil
	}
	s, err := ps.secret(ctx, ps.r.CloudInit.Get, ci.SecretRef.Name, v1alpha1.LabelCloudInit, v1alpha1.ReasonCloudInitError)
	if err != nil {
		return "", err
	}
	key := ci.SecretRef.SecretKey()
	value, ok := s.Data[key]
	if !ok || len(value) == 0 {
		return "", block(v1alpha1.ReasonCloudInitError, "Secret %q has no value under key %q", s.Name, key)
	}
	return string(value), nil
}

// secret reads a Secret from a cache that holds only those with the label, so that without the label it is as if it
// did not exist: the label is what keeps a Proxy's author from reading any Secret through an instance.
func (ps *pass) secret(ctx context.Context, get getter, name, label, reason string) (*corev1.Secret, error) {
	s := &corev1.Secret{}
	err := get(ctx, types.NamespacedName{Namespace: ps.key.Namespace, Name: name}, s)
	if apierrors.IsNotFound(err) {
		return nil, block(reason, "Secret %q does not exist or lacks the label %s: %q", name, label, v1alpha1.LabelValueTrue)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	return s, nil
}

// request is the creation that the spec asks for now.
func (ps *pass) request() provider.CreateRequest {
	return provider.CreateRequest{
		Name: provider.NameFromUID(string(ps.p.UID)), UID: string(ps.p.UID),
		Namespace: ps.key.Namespace, ProxyName: ps.key.Name,
		Placement: ps.want.input.Placement, CloudInit: ps.want.cloudInit, Port: ps.want.input.Port,
		Credentials: ps.creds, Spec: ps.want.mark,
	}
}
