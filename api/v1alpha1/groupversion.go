package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of every kind in this package.
const Group = "crawl.example.com"

// GroupVersion returns the group and version of every kind in this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: "v1alpha1"}
}

// AddToScheme registers the kinds of this package in s. It is idempotent.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &Proxy{}, &ProxyList{}, &ProviderHealth{}, &ProviderHealthList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
