package manifests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestBadValuesGiveOneClearError: it names the value, says what is wrong with it, and is the only one.
func TestBadValuesGiveOneClearError(t *testing.T) {
	const pods = "providers: {kubernetes: {enabled: true}, entries: [{name: pods, type: kubernetes, kubernetes: {}}]}\n"
	for values, says := range map[string]string{
		"replicaCount: 2":                                                "additional properties 'replicaCount' not allowed",
		"replicas: two":                                                  "at '/replicas': got string, want integer",
		"replicas: 11":                                                   "at '/replicas': maximum: got 11, want 10",
		"image: {tag: 'a b'}":                                            "at '/image/tag': 'a b' does not match pattern",
		"image: {digest: sha256:abc}":                                    "at '/image/digest': 'sha256:abc' does not match pattern",
		"image: {pullPolicy: Sometimes}":                                 "at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'",
		"image: {name: x}":                                               "at '/image': additional properties 'name' not allowed",
		"flags: {drain-timeot: 5m}":                                      "at '/flags': additional properties 'drain-timeot' not allowed",
		"flags: {drain-timeout: 5}":                                      "at '/flags/drain-timeout': got number, want string",
		"flags: {health-workers: many}":                                  "at '/flags/health-workers': got string, want integer",
		"flags: {require-auth: false}":                                   "at '/flags': additional properties 'require-auth' not allowed",
		"discovery: {requireAuth: 'no'}":                                 "at '/discovery/requireAuth': got string, want boolean",
		"discovery: {token: {value: secret}}":                            "at '/discovery/token': additional properties 'value' not allowed",
		"discovery: {service: {port: 0}}":                                "at '/discovery/service/port': minimum: got 0, want 1",
		"discovery: {tls: {existingSecret: a_}}":                         "at '/discovery/tls/existingSecret': 'a_' does not match pattern",
		"goMemLimit: 100Mi":                                              "at '/goMemLimit': '100Mi' does not match pattern",
		"resources: {limits: {memory: 1.5Gi}}":                           "at '/resources/limits/memory': '1.5Gi' does not match pattern",
		"resources: {limits: {memory: null}}":                            "at '/resources/limits': missing property 'memory'",
		"networkPolicy: {crawlers: {a: 1}}":                              "at '/networkPolicy/crawlers/a': got number, want string",
		"extraEnv: [{name: DISCOVERY_TOKEN, value: x}]":                  "at '/extraEnv/0/name': 'not' failed",
		"providers: {entries: [{type: kvm, kvm: {}}]}":                   "at '/providers/entries/0': missing property 'name'",
		"providers: {entries: [{name: laptop, type: local}]}":            "at '/providers/entries/0/type': value must be one of 'gcp', 'kubernetes', 'kvm'",
		"providers: {entries: [{name: a, type: kvm}]}":                   `providers.entries[0] (a): type kvm needs the block "kvm"`,
		"providers: {entries: [{name: a, type: kvm, kvm: {}, gcp: {}}]}": `providers.entries[0] (a): the block "gcp" does not belong to type kvm`,
		"providers: {entries: [{name: a, type: kvm, kvm: {}}, {name: a, type: gcp, gcp: {}}]}": `providers.entries[1]: the name "a" is taken by another entry`,
		strings.Replace(pods, "true", "false", 1):                                              "providers.entries[0] (pods) makes Pods in this cluster: set providers.kubernetes.enabled",
		"providers: {kubernetes: {namespaces: [a]}}":                                           "providers.kubernetes.namespaces: set providers.kubernetes.enabled, too",
		"providers: {kubernetes: {enabled: true, createNamespaces: true}}":                     "providers.kubernetes.createNamespaces: providers.kubernetes.namespaces names none",
		"discovery: {requireAuth: false, token: {existingSecret: a}}":                          "discovery.token.existingSecret: discovery.requireAuth is off",
		"discovery: {requireAuth: false, namedTokens: {existingSecret: a}}":                    "discovery.namedTokens.existingSecret: discovery.requireAuth is off",
		"podDisruptionBudget: {enabled: true, maxUnavailable: 2}":                              "podDisruptionBudget.maxUnavailable: 2, but there are 1 replicas",
		"nameOverride: a-name-that-is-far-too-long-for-an-object":                              `the name "egress-proxies-operator-a-name-that-is-far-too-long-for-an-object" of the objects is 65 characters long`,
	} {
		_, said, err := helm(t, "template", name, operatorChart, "--values", valuesFile(t, values))
		if err == nil {
			t.Errorf("%s is taken", values)
			continue
		}
		if !strings.Contains(said, says) {
			t.Errorf("%s:\n%swant %s", values, said, says)
		}
		if n := strings.Count(said, "- at '"); n > 1 {
			t.Errorf("%s: %d errors\n%s", values, n, said)
		}
	}
	for _, values := range []string{pods, "providers: {entries: [{name: a, type: kubernetes, kubernetes: {kubeconfig: /etc/other/kubeconfig}}]}"} {
		if _, said, err := helm(t, "template", name, operatorChart, "--values", valuesFile(t, values)); err != nil {
			t.Errorf("%s: %s", values, said)
		}
	}
	if _, said, err := helm(t, "template", "crds", crdsChart, "--set", "kep=true"); err == nil || !strings.Contains(said, "additional properties 'kep' not allowed") {
		t.Errorf("%v: %s", err, said)
	}
}

// own are the flags that the chart sets by itself, or that have no place in a Pod.
var own = []string{
	"--discovery-bind-address", "--discovery-tls-cert-file", "--discovery-tls-key-file", "--health-probe-bind-address", "--leader-elect",
	"--leader-election-id", "--leader-election-namespace", "--metrics-bind-address", "--pod-name", "--pod-namespace", "--providers-config",
	"--require-auth", "--token-file", "--version",
}

// TestTheChartKnowsEveryFlag: the schema has each of the reference, and no other.
func TestTheChartKnowsEveryFlag(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, operatorChart, "values.schema.json"))
	must(t, err)
	var schema struct {
		Properties struct {
			Flags struct{ Properties map[string]any }
		}
	}
	must(t, json.Unmarshal(data, &schema))
	known := schema.Properties.Flags.Properties
	for flag := range flagDefaults(t) {
		if slices.Contains(own, flag) == (known[strings.TrimPrefix(flag, "--")] != nil) {
			t.Errorf("flag %s: the chart's own: %v, in the schema: %v", flag, slices.Contains(own, flag), known[strings.TrimPrefix(flag, "--")])
		}
		delete(known, strings.TrimPrefix(flag, "--"))
	}
	for flag := range known {
		t.Errorf("the schema has a flag %s that the operator has not", flag)
	}
}

// TestEveryDefaultFlagIsTaken: the defaults of the reference fit the schema, and reach the operator as they are.
func TestEveryDefaultFlagIsTaken(t *testing.T) {
	var values, want []string
	for flag, value := range flagDefaults(t) {
		if *value == "" || slices.Contains(own, flag) {
			continue
		}
		text := *value
		if !regexp.MustCompile(`^([0-9]+|true|false)$`).MatchString(text) || flag == "--pprof-bind-address" {
			text = "'" + text + "'"
		}
		values = append(values, "  "+strings.TrimPrefix(flag, "--")+": "+text+"\n")
		want = append(want, flag+"="+*value)
	}
	args := template(t, "flags:\n"+strings.Join(values, "")).container(t).Args
	for _, w := range want {
		if !slices.Contains(args, w) {
			t.Errorf("no %s in %q", w, args)
		}
	}
}

// TestEveryValueHasEffect sets each of the values that no other test does.
func TestEveryValueHasEffect(t *testing.T) {
	o := template(t, `
fullnameOverride: another-operator
image: {repository: registry.example.com/a/operator, digest: sha256:`+strings.Repeat("a", 64)+`, pullPolicy: Always}
imagePullSecrets: [{name: pull}]
serviceAccount: {annotations: {iam.example.com/account: x}}
providers: {entries: [{name: cloud, type: gcp, gcp: {project: p}}]}
discovery: {token: {existingSecret: mine}, service: {type: LoadBalancer, port: 80, annotations: {lb.example.com/internal: "true"}}}
resources: {limits: {memory: 2Gi}}
podAnnotations: {a: b}
podLabels: {c: d}
nodeSelector: {pool: system}
tolerations: [{operator: Exists}]
affinity: {podAntiAffinity: {}}
topologySpreadConstraints: [{topologyKey: zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
extraEnv: [{name: HTTPS_PROXY, value: http://proxy}]
extraVolumes: [{name: ca, configMap: {name: ca}}]
extraVolumeMounts: [{name: ca, mountPath: /etc/ca}]
monitoring: {podMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}, rules: {enabled: true, labels: {role: alerts}}, dashboard: {enabled: true, labels: {folder: egress}, namespace: grafana}}
networkPolicy: {enabled: true, crawlers: {team: crawl}, monitoring: {team: watch}}
`)
	for _, u := range o {
		if !strings.HasPrefix(u.GetName(), "another-") {
			t.Errorf("%s %s is not named after the release", u.GetKind(), u.GetName())
		}
	}
	for _, r := range find[rbacv1.Role](t, o, "Role", "another-operator").Rules {
		if r.Resources[0] == "leases" && len(r.ResourceNames) > 0 && r.ResourceNames[0] != "another-operator" {
			t.Errorf("the lease of the election is %q", r.ResourceNames)
		}
	}
	all, err := yaml.Marshal(o)
	must(t, err)
	text := string(all)
	for _, want := range []string{
		"image: registry.example.com/a/operator@sha256:aaa", "imagePullPolicy: Always", "- name: pull\n", "iam.example.com/account: x", "project: p\n",
		"name: mine\n", "type: LoadBalancer", "port: 80\n", `lb.example.com/internal: "true"`, "memory: 2Gi", "value: 1843MiB", "a: b\n", "c: d\n", "pool: system",
		"operator: Exists", "podAntiAffinity: {}", "maxSkew: 2", "priorityClassName: high", "value: http://proxy", "mountPath: /etc/ca", "interval: 15s",
		"release: prometheus", "role: alerts", "folder: egress", "namespace: grafana", "team: crawl", "team: watch",
		"--leader-election-id=another-operator", "crawl.example.com/leader: another-operator",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	open := template(t, "discovery: {requireAuth: false}").container(t)
	for _, e := range open.Env {
		if e.Name == "DISCOVERY_TOKEN" {
			t.Error("a token although nobody is asked for one")
		}
	}
	if slices.Contains(open.Args, "--require-auth") {
		t.Error("a token is required although discovery.requireAuth is off")
	}
	if got := env(t, template(t, "goMemLimit: 1GiB").container(t), "GOMEMLIMIT"); got != "1GiB" {
		t.Errorf("GOMEMLIMIT %s", got)
	}
}
