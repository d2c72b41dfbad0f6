// Package v1alpha1 is the API of the operator: the Proxy object, its validation and the pure helpers that read it.
//
// Validation lives in the schema (OpenAPI and CEL) alone; there is no webhook. Defaults that would collide with a rule
// when stored (a port on an External Proxy, say) are not in the schema: the helpers in defaults.go apply them.
//
// +kubebuilder:object:generate=true
// +groupName=crawl.example.com
package v1alpha1
