package kubernetes

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// annotationRevision holds the revision of the credentials, at the Secret and, as a sign for the kubelet, at the Pod.
const annotationRevision = "proxy-operator-credentials"

// asAnnotations are the marks whose values may not fit into a label.
var asAnnotations = []string{provider.LabelNamespace, provider.LabelName, provider.LabelSpec}

// putMarks writes m to the labels and annotations of an object.
func putMarks(o *metav1.ObjectMeta, m provider.Marks) {
	all := m.ToMap()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	for _, key := range asAnnotations {
		o.Annotations[key] = all[key]
		delete(all, key)
	}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	maps.Copy(o.Labels, all)
}

// marksOf reads what putMarks wrote. An object that lacks any of it has zero marks, and so is foreign.
func marksOf(o *metav1.ObjectMeta) provider.Marks {
	all := maps.Clone(o.Labels)
	if all == nil {
		return provider.Marks{}
	}
	for _, key := range asAnnotations {
		value, ok := o.Annotations[key]
		if !ok {
			return provider.Marks{}
		}
		all[key] = value
	}
	m, _ := provider.MarksFromMap(all)
	return m
}

// selector finds this installation's objects.
func selector(o provider.Owner) string {
	return labels.SelectorFromSet(labels.Set{
		provider.LabelManaged: provider.LabelManagedValue, provider.LabelInstallation: o.Installation, provider.LabelCluster: o.Cluster,
	}).String()
}

// reserved reports whether an annotation is the operator's own.
func reserved(key string) bool {
	return key == annotationRevision || slices.Contains(asAnnotations, key)
}
