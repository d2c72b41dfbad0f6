package node

import (
	"encoding/json"
	"os"

	"sigs.k8s.io/yaml"
)

// object is a configuration file's content.
type object = map[string]any

// podNetwork leads every Pod to this host, which is its gateway: what the host routes or is, Pods reach. Where they leave the
// host their addresses are masqueraded; a server on the host sees them.
//
// It is no bridge: between two Pods of one, an answer passes by the rules that translated the request to a Service, unless
// the host has loaded br_netfilter, which changes its own bridges, too.
func podNetwork() object {
	return object{
		"cniVersion": "0.4.0",
		"name":       "pods",
		"plugins": []object{
			{
				"type": "ptp", "ipMasq": true,
				"ipam": object{
					"type":   "host-local",
					"ranges": [][]object{{{"subnet": podCIDR}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}
}

func writeJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

func writeYAML(file string, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
