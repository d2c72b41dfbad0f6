package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/internal/leaderlabel"
)

func TestThePodKeepsToTheRestrictedPodSecurityStandard(t *testing.T) {
	c := newClient(t, config)
	o := install(t, c, "default")
	if err := c.Create(t.Context(), o.pod(t, "restricted"), client.DryRunAll); err != nil {
		t.Error(err)
	}
	loose := o.pod(t, "loose")
	loose.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil
	if err := c.Create(t.Context(), loose, client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("the namespace does not enforce it: %v", err)
	}
}

// TestThePodIsConfined holds the template to what the standard does not ask for.
func TestThePodIsConfined(t *testing.T) {
	o := kustomize(t, "default")
	spec, c := o.deployment(t).Spec.Template.Spec, o.container(t)
	if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		t.Error("the root file system can be written to")
	}
	tmp := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == "tmp" })
	if tmp < 0 || spec.Volumes[tmp].EmptyDir.SizeLimit.String() != "64Mi" || spec.Volumes[tmp].EmptyDir.Medium != "" {
		t.Errorf("/tmp: %+v", spec.Volumes)
	}
	limit := c.Resources.Limits.Memory()
	if limit.String() != "128Mi" {
		t.Errorf("memory limit %s", limit)
	}
	soft := resource.MustParse(strings.TrimSuffix(env(t, c, "GOMEMLIMIT"), "B"))
	if share := float64(soft.Value()) / float64(limit.Value()); share < 0.8 || share > 0.95 {
		t.Errorf("GOMEMLIMIT is %.2f of the memory limit", share)
	}
	if grace, stop := time.Duration(*spec.TerminationGracePeriodSeconds)*time.Second, stopTimeout(t); grace <= stop {
		t.Errorf("the Pod is killed after %v, an orderly stop takes up to %v", grace, stop)
	}
}

// TestPortsAndPathsAreTheFlagsDefaults: nothing of them is in the arguments.
func TestPortsAndPathsAreTheFlagsDefaults(t *testing.T) {
	o := kustomize(t, "default")
	c, flags := o.container(t), flagDefaults(t)
	for _, arg := range c.Args {
		if flag, _, _ := strings.Cut(arg, "="); flags[flag] == nil {
			t.Errorf("the operator has no flag %s", arg)
		}
	}
	for port, flag := range map[string]string{
		"discovery": "--discovery-bind-address", "metrics": "--metrics-bind-address", "probes": "--health-probe-bind-address",
	} {
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
		if i < 0 || flags[flag] == nil || ":"+strconv.Itoa(int(c.Ports[i].ContainerPort)) != *flags[flag] {
			t.Errorf("port %s: %+v", port, c.Ports)
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if p.HTTPGet.Port.String() != "probes" {
			t.Errorf("probe: %+v", p)
		}
	}
	file := *flags["--providers-config"]
	if i := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(file) }); i < 0 || c.VolumeMounts[i].Name != "providers" {
		t.Errorf("no volume where the operator looks for %s", file)
	}
	if configured := find[corev1.ConfigMap](t, o, "ConfigMap", "egress-proxies-providers-"); configured.Data[filepath.Base(file)] == "" {
		t.Errorf("no %s in %v", filepath.Base(file), configured.Data)
	}
}

func TestTheServiceSelectsTheLeader(t *testing.T) {
	o := kustomize(t, "default")
	s := find[corev1.Service](t, o, "Service", "egress-proxies-discovery")
	leader := labels.Set{leaderlabel.Label: *flagDefaults(t)["--leader-election-id"]}
	if got := labels.Set(s.Spec.Selector); got.String() != leader.String() {
		t.Errorf("the Service selects %s, the leader is labelled %s", got, leader)
	}
	if labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(o.pod(t, "any").Labels)) {
		t.Error("the Service selects every replica")
	}
	if p := s.Spec.Ports; len(p) != 1 || p[0].TargetPort.String() != "discovery" {
		t.Errorf("ports: %+v", p)
	}
}

func env(t *testing.T, c *corev1.Container, name string) string {
	t.Helper()
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	t.Fatalf("no %s among %+v", name, c.Env)
	return ""
}

// flagDefaults reads the generated reference: flags with their defaults, "" where there is none.
func flagDefaults(t *testing.T) map[string]*string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", "flags.md"))
	must(t, err)
	out := map[string]*string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(--[a-z-]+)` \\| `[A-Z_]+` \\| (?:`([^`]*)`|–) \\|").FindAllStringSubmatch(string(data), -1) {
		out[row[1]] = &row[2]
	}
	if len(out) < 20 {
		t.Fatalf("only %d flags in the reference", len(out))
	}
	return out
}

// stopTimeout reads how long the operator takes to stop at most, which nothing outside of it can ask.
func stopTimeout(t *testing.T) time.Duration {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "cmd", "operator", "operate.go"))
	must(t, err)
	found := regexp.MustCompile(`const stopTimeout = (\d+) \* time\.Second`).FindSubmatch(data)
	if found == nil {
		t.Fatal("stopTimeout is no longer where it was")
	}
	seconds, err := strconv.Atoi(string(found[1]))
	must(t, err)
	return time.Duration(seconds) * time.Second
}
