// Command cluster runs a command in a real single-node Kubernetes cluster that is there for it alone and leaves nothing
// behind:
//
//	go run ./hack/cluster [flags] -- COMMAND ARGS…
//
// It needs root on Linux and a few of Debian's packages, which hack/cluster/install installs. etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet and kube-proxy come from hack/controlplane. Everything runs in
// namespaces of its own, the command too, which finds in its environment:
//
//	KUBECONFIG            the administrator's
//	E2E_CLUSTER_CONTROL   the socket of hack/cluster/control, to stop, kill and start components
//	E2E_NODE_NAME, E2E_NODE_IP, E2E_POD_CIDR
//	E2E_LOGS              the folder of the components' logs and, in pods/, of those of Pods
//
// Pods reach every address of the host's, also one that the command adds: ip addr add 198.51.100.10/32 dev lo. They ask
// E2E_NODE_IP for names; nobody answers there unless the command does. The world outside is out of reach.
//
// A terminal works as ever: -- bash looks around in there.
//
// The exit code is the command's; 2 when something is missing or misused, 1 when the cluster does not come up.
package main
