// Package kubernetes proves the operator and its provider kubernetes on a real cluster: it installs the operator from its
// own manifests and takes Proxies through their lives, with Pods that a kubelet runs.
//
// `make e2e-kubernetes` brings up a cluster of its own for it. Against any other, such as one of kind:
//
//	KUBECONFIG=... E2E_OPERATOR_IMAGE=... E2E_SQUID_IMAGE=... E2E_TARGET_IMAGE=... go test -tags e2e -v ./test/e2e/kubernetes
//
// The nodes must have the three images, see docs/kubernetes-provider.md. What was proven is printed in lines that begin with
// "proved:".
package kubernetes
