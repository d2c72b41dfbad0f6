package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const resourceQuotas = "resourcequotas"

// maxQuotas bounds the details of a check: an entry may be for many namespaces.
const maxQuotas = 16

// headroom adds to details how many Pods the quotas of a namespace leave room for, the scarcest first where there are many.
// To read quotas is a right that the operator does not need.
func (p *Provider) headroom(ctx context.Context, details map[string]string) {
	left := map[string]int64{}
	for _, namespace := range p.scopes() {
		list := &corev1.ResourceQuotaList{}
		if err := p.api.list(ctx, resourceQuotas, namespace, metav1.ListOptions{Limit: p.pageSize}, list); err != nil {
			continue
		}
		for i := range list.Items {
			q := &list.Items[i]
			if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
				continue // it is for some Pods only, perhaps for none of these
			}
			n, bounded := podsLeft(&q.Status)
			if before, ok := left[q.Namespace]; bounded && (!ok || n < before) {
				left[q.Namespace] = n
			}
		}
	}
	scarce := slices.SortedFunc(maps.Keys(left), func(a, b string) int {
		return cmp.Or(cmp.Compare(left[a], left[b]), cmp.Compare(a, b))
	})
	for _, namespace := range scarce[:min(len(scarce), maxQuotas)] {
		details["quota/"+namespace] = fmt.Sprintf("%d Pods left", left[namespace])
	}
}

// podsLeft returns how many more Pods a quota allows by number. Whether they find enough of other resources is a question
// of what each asks for.
func podsLeft(s *corev1.ResourceQuotaStatus) (n int64, bounded bool) {
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, "count/pods"} {
		hard, ok := s.Hard[name]
		if !ok {
			continue
		}
		used := s.Used[name]
		if free := max(0, hard.Value()-used.Value()); !bounded || free < n {
			n, bounded = free, true
		}
	}
	return n, bounded
}
