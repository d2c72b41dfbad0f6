// Package manifests tests what config/ and charts/ hold: it builds every kustomization, renders the charts, applies them to a real API server, and runs the
// operator out of its image under the service account that the manifests make, with the rights that they grant.
package manifests
