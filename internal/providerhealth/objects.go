package providerhealth

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// What the manifests have to grant. An operator without these rights works all the same, and says what is missing.
//
// +kubebuilder:rbac:groups=crawl.example.com,resources=providerhealths,verbs=get;list;create;delete
// +kubebuilder:rbac:groups=crawl.example.com,resources=providerhealths/status,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// apiTimeout bounds each call to the API server.
	apiTimeout = 10 * time.Second
	// pageSize bounds how many objects one call lists.
	pageSize = 500
)

// objects are the ProviderHealths of the cluster as they were at the beginning of the round, by name.
type objects struct {
	known map[string]metav1.ObjectMeta
	// failure is why they are not known; nil if they are.
	failure error
	// said is what was last said of a failure.
	said string
}

// look lists all ProviderHealths, their metadata alone. One call shows what was removed, what others have changed and what is
// not ours.
func (m *Monitor) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	known := map[string]metav1.ObjectMeta{}
	list := &metav1.PartialObjectMetadataList{}
	for next := true; next; next = list.Continue != "" {
		list.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProviderHealthList"))
		if err := m.o.Live.List(ctx, list, client.Limit(pageSize), client.Continue(list.Continue)); err != nil {
			m.objects.known, m.objects.failure = nil, err
			m.complain(ctx, "list", err)
			return
		}
		for _, o := range list.Items {
			known[o.Name] = o.ObjectMeta
		}
	}
	m.objects.known, m.objects.failure = known, nil
}

// hopeless reports whether an error of the API server is there to stay until somebody mends the installation.
func hopeless(err error) bool {
	return apierrors.IsForbidden(err) || meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
}

// complain says once what keeps the objects from being written.
func (m *Monitor) complain(ctx context.Context, verb string, err error) {
	if ctx.Err() != nil && ctx.Err() != context.DeadlineExceeded {
		return
	}
	text, why := "ProviderHealth objects cannot be written; checks, metrics and gates go on without them", err.Error()
	switch {
	case apierrors.IsForbidden(err):
		text = "WARNING: " + text + ". The operator lacks the right to " + verb +
			" providerhealths.crawl.example.com in the whole cluster: grant it, or do without"
	case meta.IsNoMatchError(err) || verb == "list" && apierrors.IsNotFound(err):
		text = "WARNING: " + text + ". The CustomResourceDefinition is not installed"
	}
	if said := text + why; m.objects.said != said {
		m.objects.said = said
		ctrl.LoggerFrom(ctx).Info(text, "verb", verb, "error", why)
	}
}

// ours reports whether this installation made the object.
func (m *Monitor) ours(o metav1.Object) bool {
	return o.GetLabels()[v1alpha1.LabelInstallation] == m.o.Owner.Installation
}

// sweep deletes our objects whose entry is gone.
func (m *Monitor) sweep(ctx context.Context, configured map[string]bool) {
	for name, known := range m.objects.known {
		if configured[name] || !m.ours(&known) || known.DeletionTimestamp != nil {
			continue // what is being deleted goes when those let it who hold it
		}
		err := m.remove(ctx, known)
		switch {
		case err == nil:
			delete(m.objects.known, name)
			ctrl.LoggerFrom(ctx).Info("the entry is gone, and so is its ProviderHealth", "provider", name)
		case apierrors.IsConflict(err): // it has changed: the next round looks again
		default:
			m.complain(ctx, "delete", err)
		}
	}
}

func (m *Monitor) remove(ctx context.Context, known metav1.ObjectMeta) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	obj := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: known.Name}}
	// What took the name meanwhile, or has been given to somebody else, stays.
	return client.IgnoreNotFound(m.o.Client.Delete(ctx, obj, client.Preconditions{UID: &known.UID, ResourceVersion: &known.ResourceVersion}))
}

// recall makes e.stored the object as it is.
func (m *Monitor) recall(ctx context.Context, e *entry, name string) {
	known, there := m.objects.known[name]
	switch {
	case m.objects.failure != nil:
		return
	case !there:
		e.stored, e.foreign = nil, false
		return
	case !m.ours(&known):
		m.claim(ctx, e, &known)
		return
	case e.stored != nil && e.stored.UID == known.UID && e.stored.ResourceVersion == known.ResourceVersion:
		return
	}
	m.reread(ctx, e, name)
}

// reread makes e.stored the object as it is now. It reports whether that is known.
func (m *Monitor) reread(ctx context.Context, e *entry, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	obj := &v1alpha1.ProviderHealth{}
	err := m.o.Live.Get(ctx, client.ObjectKey{Name: name}, obj)
	switch {
	case apierrors.IsNotFound(err):
		e.stored, e.foreign = nil, false
		delete(m.objects.known, name)
		return true
	case err != nil:
		m.complain(ctx, "get", err)
		return false
	}
	m.objects.known[name] = obj.ObjectMeta
	if !m.ours(obj) {
		m.claim(ctx, e, obj)
		return false
	}
	e.stored, e.foreign = obj, false
	e.remember()
	return true
}

// claim notes that the object belongs to somebody else, and says so once.
func (m *Monitor) claim(ctx context.Context, e *entry, o metav1.Object) {
	e.stored = nil
	if e.foreign {
		return
	}
	e.foreign = true
	whose := "no installation of the operator"
	if id := o.GetLabels()[v1alpha1.LabelInstallation]; id != "" {
		whose = fmt.Sprintf("installation %q", cut(id, 63))
	}
	note := fmt.Sprintf("this object was made by %s; installation %q has an entry of the same name, which is not shown here", whose, m.o.Owner.Installation)
	ctrl.LoggerFrom(ctx).Info("WARNING: "+note, "provider", o.GetName())
	m.event(o, warning, EventNameConflict, note)
}
