package kubernetes

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// parts are what stands in a place. Nil is what is not there.
type parts struct {
	pod    *corev1.Pod
	secret *corev1.Secret
}

// look reads Pod and Secret live. Any error other than a 404 about either is one.
func (p *Provider) look(ctx context.Context, at place) (parts, error) {
	pod, err := p.lookPod(ctx, at)
	if err != nil {
		return parts{}, err
	}
	secret, err := p.lookSecret(ctx, at)
	return parts{pod, secret}, err
}

func (p *Provider) lookPod(ctx context.Context, at place) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := p.api.get(ctx, pods, at, pod)
	if absent(err, pods, at) {
		return nil, nil //nolint:nilnil // that it is not there is the answer
	}
	if err != nil {
		return nil, err
	}
	return pod, nil
}

func (p *Provider) lookSecret(ctx context.Context, at place) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.api.get(ctx, secrets, at, secret)
	if absent(err, secrets, at) {
		return nil, nil //nolint:nilnil // that it is not there is the answer
	}
	if err != nil {
		return nil, err
	}
	return secret, nil
}

// metas returns what is there, the Pod first.
func (s parts) metas() (out []*metav1.ObjectMeta) {
	if s.pod != nil {
		out = append(out, &s.pod.ObjectMeta)
	}
	if s.secret != nil {
		out = append(out, &s.secret.ObjectMeta)
	}
	return out
}

func (s parts) empty() bool { return s.pod == nil && s.secret == nil }

// foreign says why something that stands there is not uid's, nil when all is.
func (p *Provider) foreign(s parts, uid string) error {
	for _, o := range s.metas() {
		if err := p.owner.Foreign(marksOf(o), uid); err != nil {
			return err
		}
	}
	return nil
}

// sameAttempt judges what stands where a part of the attempt that ref names belongs.
func (p *Provider) sameAttempt(op string, ref provider.Ref, s parts) error {
	if err := p.foreign(s, ref.UID); err != nil {
		return provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, err)
	}
	for _, o := range s.metas() {
		switch m := marksOf(o); {
		case m.Attempt != ref.Attempt:
			return provider.Wrap(provider.ErrTransient, op, p.name, ref.ID,
				fmt.Errorf("attempt %d stands there, not %d", m.Attempt, ref.Attempt)).WithReason(provider.ReasonAttemptMismatch)
		case o.DeletionTimestamp != nil:
			return provider.Wrap(provider.ErrTransient, op, p.name, ref.ID, errors.New("what stands there is being deleted"))
		}
	}
	return nil
}
