// Package kubernetes runs proxies as Pods with Squid.
//
// An instance is a Pod, and a Secret of the same name where the proxy asks for credentials. Both carry the marks: labels
// for those that lists select by, annotations for those that do not fit into a label. The ID is <namespace>/<name>; Pods
// live in their Proxy's own namespace unless the entry names another one.
//
//   - Create makes the Secret first and the Pod last: a Pod is there when the creation is complete, and what a crash in
//     between leaves is inert. The name decides who comes first. What was refused for good is taken away again.
//   - Get and Delete ask the API server, never a cache. A Pod is proven absent by a 404 about that Pod and one about the
//     Secret while their namespace can be read: the API server says 404 about a Pod in a namespace that does not exist, too.
//   - Delete names the UIDs that it read together with the marks, so it cannot hit what came after. It never forces: while
//     a node is lost, its Pod may still serve, and the instance stays Deleting until the API server gives the Pod up.
//   - The Pod has an OwnerReference to its Proxy where both are in one namespace of one cluster. Elsewhere such a reference
//     would make Kubernetes collect the Pod at once, because its owner cannot be found.
//
// # Image
//
// The image brings a shell as /bin/sh, squid in its PATH, and /usr/lib/squid/basic_ncsa_auth, as Debian's and Ubuntu's
// packages do. Its entry point is not used: that of Canonical's ubuntu/squid makes a certificate with make-ssl-cert,
// follows log files below /var/log/squid with tail, runs `squid -Nz` and then `squid "$@"` (see the copy, with the
// original's comments, in langgenius/dify, docker/ssrf_proxy/docker-entrypoint.sh), for all of which it has to write to its
// root file system. The container's command writes the configuration from an environment variable to a volume in memory
// instead and becomes `squid -N`.
//
// # Credentials
//
// The Secret holds one line for basic_ncsa_auth: the user name and a bcrypt hash. The helper reads the file again when its
// time stamp changes, and Squid asks the helper again after 10 s. What takes longest is the kubelet, which renews mounted
// Secrets every minute or so, but at once when an annotation of the Pod changes
// (https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/, "Mounted ConfigMaps are updated
// automatically"); so UpdateCredentials notes the revision at the Pod.
//
// # Rights
//
// In each namespace of the entry: get, list, watch, create, patch and delete Pods; get, list, create, update and delete
// Secrets; get that namespace. To list resourcequotas is optional: without it, Check says nothing of the room they leave.
// Without watch, changes of Pods show with the next list.
//
// Lists select by label, but RBAC cannot, so a namespace of its own (Config.Namespace) is what keeps the operator's rights for
// this provider away from other people's Secrets. Somebody who may create Pods there can make one that carries the marks: it
// is listed, and may be deleted as a stray.
package kubernetes
