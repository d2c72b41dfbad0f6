package kubernetes

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	nothingYet = "nothing is to be seen yet"
	podGone    = "the Pod is gone, its Secret is left"
)

// Get reads the Pod and, where there is none of ours, the Secret.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	ctx = p.calling(ctx, "get", ref.ID)
	inst, err := p.get(ctx, ref)
	saw(ctx, inst)
	outcome(ctx, err)
	return inst, err
}

func (p *Provider) get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	const op = "get"
	at, err := p.placeOf(op, ref.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := p.bound(ctx)
	defer cancel()
	// The clock is read first: a window that passes in between must not turn "not there yet" into a proof.
	passed := p.window.Passed(ref)
	pod, err := p.lookPod(ctx, at)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	var strange error
	if pod != nil {
		if strange = p.owner.Foreign(marksOf(&pod.ObjectMeta), ref.UID); strange == nil {
			return p.ofPod(pod), nil
		}
	}
	secret, err := p.lookSecret(ctx, at)
	if err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	if secret != nil {
		m := marksOf(&secret.ObjectMeta)
		notOurs := p.owner.Foreign(m, ref.UID)
		switch {
		case notOurs != nil && strange == nil:
			strange = notOurs
		case notOurs == nil && strange == nil && !passed && m.Attempt == ref.Attempt:
			// A creation that got half way, or is on its way. Repeated, it gets to its end; the Pod is what counts.
			return &provider.Instance{ID: ref.ID, State: provider.StateProvisioning, Message: nothingYet}, nil
		case notOurs == nil:
			inst := describe(&secret.ObjectMeta)
			inst.State, inst.Message = ofRest(&secret.ObjectMeta), podGone
			return &inst, nil
		}
	}
	if strange != nil {
		e := provider.Wrap(provider.ErrConflict, op, p.name, ref.ID, strange)
		if !passed {
			e = e.WithReason(provider.ReasonAbsenceUnproven)
		}
		return nil, e
	}
	if !passed {
		return &provider.Instance{ID: ref.ID, State: provider.StateProvisioning, Message: nothingYet}, nil
	}
	if err := p.api.namespace(ctx, at.namespace); err != nil {
		return nil, p.fail(op, ref.ID, err)
	}
	return nil, provider.Wrap(provider.ErrNotFound, op, p.name, ref.ID, nil)
}

// ofPod describes the instance whose Pod is there.
func (p *Provider) ofPod(pod *corev1.Pod) *provider.Instance {
	inst := describe(&pod.ObjectMeta)
	s := stateOf(pod)
	inst.State, inst.Message = s.state, s.message
	switch s.state {
	case provider.StateRunning:
		inst.IP, inst.Port = pod.Status.PodIP, portOf(pod)
	case provider.StateFailed:
		inst.Left = true
		inst.Err = provider.Wrap(s.class, "create", p.name, inst.ID, errors.New(s.message))
	default:
	}
	return &inst
}

// ofRest is the state of an instance of which only the Secret is left.
func ofRest(o *metav1.ObjectMeta) provider.State {
	if o.DeletionTimestamp != nil {
		return provider.StateDeleting
	}
	return provider.StateTerminated
}

func describe(o *metav1.ObjectMeta) provider.Instance {
	return provider.Instance{
		ID: o.Namespace + "/" + o.Name, Marks: marksOf(o), Identity: string(o.UID), CreatedAt: o.CreationTimestamp.Time,
	}
}

func portOf(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			if c.Name == container && port.Name == portName {
				return port.ContainerPort
			}
		}
	}
	return 0
}
