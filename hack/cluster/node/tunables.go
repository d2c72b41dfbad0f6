package node

// Tunables are the kernel settings that a kubelet changes where they differ. They belong to the whole host: no namespace
// holds them back. (setupKernelTunables in k8s.io/kubernetes/pkg/kubelet/cm.)
var Tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}
