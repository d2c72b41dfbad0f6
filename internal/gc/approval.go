package gc

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// What the manifests have to grant for it.
//
// +kubebuilder:rbac:groups=crawl.example.com,resources=providerhealths,verbs=get

// AnnotationApprove on the ProviderHealth named after a provider entry releases the set of orphans whose digest it holds: the
// 16 hex digits that the breaker has published, and nothing else. It is read live whenever the breaker would hold. One that
// stays does no harm: what it names is gone for good once it was deleted.
const AnnotationApprove = v1alpha1.Group + "/gc-approve"

// maxQuoted bounds what a log line repeats of a bad value, in bytes.
const maxQuoted = 64

var digestForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// health reads the ProviderHealth of an entry, metadata alone. It returns nil where there is none, and where it cannot be
// read: then nothing is approved by it. It blocks at most for the call timeout.
func (c *Collector) health(ctx context.Context, name string, m *memory) *metav1.PartialObjectMetadata {
	limited, cancel := context.WithTimeout(ctx, c.o.CallTimeout)
	defer cancel()
	h := &metav1.PartialObjectMetadata{}
	h.SetGroupVersionKind(v1alpha1.GroupVersion().WithKind("ProviderHealth"))
	err := c.o.Live.Get(limited, types.NamespacedName{Name: name}, h)
	switch {
	case err == nil:
		return h
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		m.tell(ctx, "")
	default:
		m.tell(ctx, "the ProviderHealth could not be read, so nothing is approved by it", "provider", name, "error", err.Error())
	}
	return nil
}

// approves reports whether the annotation on h, which may be nil, names exactly the set of that digest. What it names instead is
// said once.
func (c *Collector) approves(ctx context.Context, h *metav1.PartialObjectMetadata, sum string, m *memory) bool {
	if h == nil {
		return false
	}
	value, set := h.Annotations[AnnotationApprove]
	switch {
	case !set:
		m.tell(ctx, "")
	case !digestForm.MatchString(value):
		m.tell(ctx, "WARNING: the approval is not a digest and approves nothing: want the 16 hex digits that the breaker published",
			"provider", h.Name, "annotation", AnnotationApprove, "value", quoted(value))
	case value != sum:
		m.tell(ctx, "the approval is of another set of orphans than the one held now, and approves nothing",
			"provider", h.Name, "annotation", AnnotationApprove, "approved", value, "digest", sum)
	default:
		m.tell(ctx, "")
		return true
	}
	return false
}

// quoted returns the beginning of value as it may stand in a log.
func quoted(value string) string {
	if len(value) > maxQuoted {
		return strconv.Quote(value[:maxQuoted]) + "…"
	}
	return strconv.Quote(value)
}

// tell logs what is the matter with an approval, once for as long as it is the same; "" is nothing.
func (m *memory) tell(ctx context.Context, text string, about ...any) {
	now := fmt.Sprintf("%s %q", text, about)
	if m.said == now {
		return
	}
	m.said = now
	if text != "" {
		ctrl.LoggerFrom(ctx).Info(text, about...)
	}
}
