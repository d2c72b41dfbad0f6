package manifests

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	operatorChart = "charts/egress-proxies-operator"
	crdsChart     = "charts/egress-proxies-crds"
)

// helmProgram is where Helm is, built once from the module that pins it.
var helmProgram = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=hack/tools/helm/go.mod", "-n", "helm")
	cmd.Dir = root
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs it as an administrator of the cluster, with nothing of whoever runs the test.
func helm(t *testing.T, args ...string) (out, said string, err error) {
	t.Helper()
	program, err := helmProgram()
	must(t, err)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...) // also when a test cleans up
	cmd.Dir = root
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+adminKubeconfig(t), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HELM_NAMESPACE="+system)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

func mustHelm(t *testing.T, args ...string) string {
	t.Helper()
	out, said, err := helm(t, args...)
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return out
}

// template renders the operator's chart as a release of its own name.
func template(t *testing.T, values string) objects {
	t.Helper()
	return decode(t, mustHelm(t, "template", name, operatorChart, "--values", valuesFile(t, values)))
}

func valuesFile(t *testing.T, values string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(file, []byte(values), 0o600))
	return file
}

// adminKubeconfig writes what kubectl and Helm need to act as an administrator of the cluster.
func adminKubeconfig(t *testing.T) string {
	t.Helper()
	return kubeconfigFor(t, config)
}

func kubeconfigFor(t *testing.T, config *rest.Config) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	access := clientcmdapi.NewConfig()
	access.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	access.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	access.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	access.CurrentContext = "x"
	must(t, clientcmd.WriteToFile(*access, file))
	return file
}
