package kubernetes

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const fullBlock = `
kubeconfig: /etc/egress/kubeconfig
namespaces: [crawling, crawling-2]
image: registry.example/squid:6
images: {old: registry.example/squid:5}
resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {memory: 128Mi}}
machineTypes:
  small: {requests: {cpu: 0.1, memory: 64Mi}}
  large: {requests: {cpu: 2}, limits: {cpu: "4", memory: 1Gi, example.com/nic: 1}}
nodeSelector: {pool: egress, kubernetes.io/os: linux}
tolerations:
- {key: egress, operator: Equal, value: "yes", effect: NoSchedule}
- {operator: Exists, effect: NoExecute, tolerationSeconds: 30}
topologySpreadConstraints:
- {topologyKey: topology.kubernetes.io/zone}
- {topologyKey: kubernetes.io/hostname, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}
annotations: {k8s.v1.cni.cncf.io/networks: exits}
allowClients: [10.0.0.0/8, "fd00::/8"]
allowDestinations: [10.20.0.0/16]
clusterCIDRs: [198.51.100.0/24]
`

func TestConfig(t *testing.T) {
	for name, text := range map[string]string{"full": fullBlock, "empty": "{}"} {
		block, err := registry.ParseBlock(Type, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := decode(block)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.Image == "" || c.Resources == nil || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: image %q, resources %v", name, c.Image, c.Resources)
		}
		for _, s := range c.TopologySpreadConstraints {
			if s.MaxSkew == 0 || s.WhenUnsatisfiable == "" {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}
}

func TestConfigRefuses(t *testing.T) {
	many := "[" + strings.Repeat("10.0.0.0/8, ", maxNetworks+1) + "]"
	for _, tc := range []struct{ text, key, says string }{
		{"imag: x", "kubernetes.imag", "unknown key"},
		{"kubeconfig: etc/kubeconfig", "kubernetes.kubeconfig", "absolute"},
		{"namespace: Bad_Name", "kubernetes.namespace", "Bad_Name"},
		{"namespaces: [a, b/c]", "kubernetes.namespaces[1]", "b/c"},
		{"namespaces: [a, a]", "kubernetes.namespaces[1]", "repeated"},
		{"namespaces: [a]\nnamespace: b", "kubernetes.namespaces", "remove one"},
		{"image: ''", "kubernetes.image", "want an image"},
		{"image: 'a b'", "kubernetes.image", "want an image"},
		{"images: {x: ''}", "kubernetes.images.x", "want an image"},
		{"resources: {requests: {cpu: a lot}}", "kubernetes.resources.requests.cpu", "quantities"},
		{"resources: {requests: {cpu: -1}}", "kubernetes.resources", "requests.cpu"},
		{"resources: {requests: {'c p u': 1}}", "kubernetes.resources", "c p u"},
		{"resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}", "kubernetes.resources", "more than the limit"},
		{"machineTypes: {big: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}}", "kubernetes.machineTypes.big", "requests.memory"},
		{"machineTypes: {big: {request: {}}}", "kubernetes.machineTypes.big.request", "unknown key"},
		{"nodeSelector: {'a b': c}", "kubernetes.nodeSelector", "a b"},
		{"nodeSelector: {a: 'b c'}", "kubernetes.nodeSelector", "b c"},
		{"tolerations: [{operator: Maybe}]", "kubernetes.tolerations[0]", "Maybe"},
		{"tolerations: [{effect: NoSchedule}]", "kubernetes.tolerations[0]", "key"},
		{"tolerations: [{key: a, operator: Exists, value: b}]", "kubernetes.tolerations[0]", "value"},
		{"tolerations: [{key: a, effect: Never}]", "kubernetes.tolerations[0]", "Never"},
		{"tolerations: [{key: a, tolerationSeconds: 3}]", "kubernetes.tolerations[0]", "tolerationSeconds"},
		{"topologySpreadConstraints: [{maxSkew: 1}]", "kubernetes.topologySpreadConstraints[0].topologyKey", "key of a label"},
		{"topologySpreadConstraints: [{topologyKey: a, maxSkew: -1}]", "kubernetes.topologySpreadConstraints[0].maxSkew", "-1"},
		{"topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: Cry}]", "kubernetes.topologySpreadConstraints[0].whenUnsatisfiable", "Cry"},
		{"annotations: {'a b': c}", "kubernetes.annotations", "a b"},
		{"annotations: {proxy-operator-spec: c}", "kubernetes.annotations", "operator's own"},
		{"annotations: {proxy-operator-credentials: c}", "kubernetes.annotations", "operator's own"},
		{"allowClients: [0.0.0.0/0]", "kubernetes.allowClients", "admits everybody"},
		{"allowClients: [0.0.0.0/1, 128.0.0.0/1]", "kubernetes.allowClients", "admits everybody"},
		{"allowClients: ['::/0']", "kubernetes.allowClients", "admits everybody"},
		{"allowClients: [10.0.0.1/8]", "kubernetes.allowClients[0]", "did you mean"},
		{"allowClients: ['::ffff:0:0/96']", "kubernetes.allowClients[0]", "IPv4"},
		{"allowDestinations: [everything]", "kubernetes.allowDestinations[0]", "everything"},
		{"allowDestinations: " + many, "kubernetes.allowDestinations", "at most"},
		{"clusterCIDRs: ['']", "kubernetes.clusterCIDRs[0]", "want"},
	} {
		block, err := registry.ParseBlock(Type, []byte(tc.text))
		if err != nil {
			t.Fatalf("%s: %v", tc.text, err)
		}
		_, err = decode(block)
		if err == nil || !strings.Contains(err.Error(), tc.key+": ") || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), `provider "test"`) {
			t.Errorf("%.60s: %v, want it to name %q and say %q", tc.text, err, tc.key, tc.says)
		}
	}
}
