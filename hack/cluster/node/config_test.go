package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/egress-proxies/egress-proxies-operator/hack/components"
)

func testConfig(t *testing.T) Config {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "epx-cluster-1")
	c := Config{Dir: dir, Logs: filepath.Join(dir, "logs"), ControlPlane: "/control-plane", Node: "/node"}
	if err := os.MkdirAll(c.Logs, 0o755); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKubeletConfiguration(t *testing.T) {
	c := testConfig(t)
	if err := c.writeKubelet(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.path("kubelet.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]any{
		"kind":            "KubeletConfiguration",
		"cgroupRoot":      "/epx-cluster-1", // what isolation makes and removes
		"resolvConf":      c.path("resolv.conf"),
		"volumePluginDir": c.path("volume-plugins"),
		"address":         Address,
		"failCgroupV1":    false,
		"tlsCertFile":     c.pki("kubelet.crt"),
		"staticPodPath":   nil,
		"syncFrequency":   nil, // tests rely on the default of a minute
	} {
		if got[field] != want {
			t.Errorf("%s is %v, want %v", field, got[field], want)
		}
	}
	resolv, err := os.ReadFile(c.path("resolv.conf"))
	if err != nil || string(resolv) != "nameserver "+Address+"\n" {
		t.Errorf("resolv.conf is %q, %v", resolv, err)
	}
}

// TestNothingIsWrittenToFixedFolders looks for paths outside of the cluster's folder in what components are told.
func TestNothingIsWrittenToFixedFolders(t *testing.T) {
	c := testConfig(t)
	allowed := []string{c.Dir, "/epx-cluster-1", "/run/containerd", cniPlugins}
	told := strings.Split(c.containerdConfig("pause:1", "overlayfs"), "\n")
	for _, p := range []*components.Process{c.etcd(), c.apiServer(), c.controllerManager(), c.scheduler(), c.containerd(), c.kubelet(), c.kubeProxy()} {
		told = append(told, p.Args...)
	}
	for _, v := range []object{c.kubeletConfig(), c.kubeProxyConfig()} {
		data, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		told = append(told, strings.Split(string(data), "\n")...)
	}
	for _, line := range told {
		_, value, ok := strings.Cut(line, "/")
		if !ok || strings.HasPrefix(strings.TrimSpace(line), "#") || strings.Contains(line, "https:/") || strings.Contains(line, "http:/") ||
			strings.Contains(line, "apiVersion") || strings.Contains(line, "CIDR") || strings.Contains(line, "ip-range") {
			continue
		}
		value = strings.TrimPrefix("/"+value, "//")
		ok = false
		for _, a := range allowed {
			ok = ok || strings.HasPrefix(value, a)
		}
		if !ok {
			t.Errorf("a path of the host: %s", line)
		}
	}
}

func TestReplacedFoldersAreOurs(t *testing.T) {
	c := testConfig(t)
	for folder, ours := range c.ReplacedFolders() {
		if !strings.HasPrefix(ours, c.Dir+"/") {
			t.Errorf("%s is replaced by %s, which is not below %s", folder, ours, c.Dir)
		}
	}
}
