// Package manifests tests what config/ holds: it builds every kustomization, applies it to a real API server, and runs the
// operator out of its image under the service account that the manifests make, with the rights that they grant.
package manifests
