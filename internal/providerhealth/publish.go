package providerhealth

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// maxTries bounds how often a write is tried against others who write the same object.
const maxTries = 5

// problem is why the file's content is not in use for the entry, fit to be shown.
func (m *Monitor) problem(name string) string {
	return message.Clean(m.o.Secrets.Hide(m.o.ConfigProblem(name)))
}

// outdated reports whether the object of an entry has to be written although there is no new check: it is missing, or says
// something else of the configuration than is the case.
func (m *Monitor) outdated(e *entry) bool {
	if e.checked.IsZero() || m.objects.failure != nil || e.foreign {
		return false
	}
	known, there := m.objects.known[e.handle.Name]
	if !there || e.stored == nil || known.UID != e.stored.UID {
		return true
	}
	want := accepted(m.problem(e.handle.Name))
	shown := meta.FindStatusCondition(e.stored.Status.Conditions, want.Type)
	return shown == nil || shown.Status != want.Status || shown.Reason != want.Reason || shown.Message != want.Message
}

// publish writes what is known of an entry, if that is not shown already, and then tells of what has changed.
func (m *Monitor) publish(ctx context.Context, e *entry) {
	m.recall(ctx, e, e.handle.Name)
	problem := m.problem(e.handle.Name)
	switch {
	case e.foreign, hopeless(m.objects.failure):
		m.announce(ctx, e, e.status(problem, m.tooLate(), m.now()), nil)
		return
	case m.objects.failure != nil:
		return // once the API server is back, what changed is told with what is written
	}
	for range maxTries {
		done, err := m.write(ctx, e, problem)
		switch {
		case done:
			return
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
			if !m.reread(ctx, e, e.handle.Name) {
				return
			}
		default:
			m.complain(ctx, "write", err)
			if hopeless(err) {
				m.announce(ctx, e, e.status(problem, m.tooLate(), m.now()), nil)
			}
			return
		}
	}
	ctrl.LoggerFrom(ctx).Info("a ProviderHealth changes too often to be written; the next round tries again", "provider", e.handle.Name)
}

// write makes one attempt. It is done when the object shows what it should.
func (m *Monitor) write(ctx context.Context, e *entry, problem string) (done bool, err error) {
	calls, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if e.stored == nil {
		obj := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{
			Name: e.handle.Name, Labels: map[string]string{v1alpha1.LabelInstallation: m.o.Owner.Installation},
		}}
		if err := m.o.Client.Create(calls, obj); err != nil {
			return false, err
		}
		e.stored = obj
		m.objects.known[obj.Name] = obj.ObjectMeta
	}
	status := e.status(problem, m.tooLate(), m.now())
	if due(e.stored.Status, status, m.o.ReportInterval) {
		obj := e.stored.DeepCopy() // with the resourceVersion that was read
		obj.Status = status
		if err := m.o.Client.Status().Update(calls, obj); err != nil {
			return false, err
		}
		e.stored = obj
		m.objects.known[obj.Name] = obj.ObjectMeta
		m.written(ctx)
	}
	m.announce(ctx, e, status, e.stored)
	return true, nil
}

// written notes that writing works.
func (m *Monitor) written(ctx context.Context) {
	if m.objects.said != "" {
		m.objects.said = ""
		ctrl.LoggerFrom(ctx).Info("ProviderHealth objects are written again")
	}
}
