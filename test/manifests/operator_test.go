package manifests

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const token = "t0ken-of-the-test"

// operator is the program out of the image, run as the Deployment runs it: its arguments, and a token of its account.
type operator struct {
	cmd          *exec.Cmd
	api, metrics string
	scraper      string // the token of whom the cluster lets see metrics
	providers    string // the file of its entries
	log          *lockedBuffer
	ended        chan error
	pod          client.ObjectKey
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start makes the Pod that the Deployment would make and runs what is in it here.
func start(t *testing.T, c client.Client, o objects, providers string, further ...string) *operator {
	t.Helper()
	pod := o.pod(t, strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))+"-"+utilrand.String(5))
	must(t, c.Create(t.Context(), pod))
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), pod, client.GracePeriodSeconds(0)) })
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "providers.yaml"), []byte(providers), 0o600))
	writeKubeconfig(t, c, filepath.Join(dir, "kubeconfig"))

	op := &operator{
		api: freeAddress(t), metrics: freeAddress(t), scraper: scraper(t, c), providers: filepath.Join(dir, "providers.yaml"),
		log: &lockedBuffer{}, ended: make(chan error, 1), pod: client.ObjectKeyFromObject(pod),
	}
	replaced := append(mounted(t, c, pod), "$(POD_NAME)", pod.Name, "$(POD_NAMESPACE)", pod.Namespace)
	var args []string
	for _, a := range pod.Spec.Containers[0].Args {
		args = append(args, strings.NewReplacer(replaced...).Replace(a))
	}
	args = append(args,
		// What a Pod has and a process here does not: files at their place, ports of its own, its service account's namespace.
		"--providers-config", op.providers, "--leader-election-namespace", pod.Namespace,
		"--discovery-bind-address", op.api, "--metrics-bind-address", op.metrics, "--health-probe-bind-address", "0",
		// So that the tests need not wait, least of all for a creation that might still be under way.
		"--drift-poll=1s", "--deletion-poll=1s", "--drain-timeout=0s", "--provider-call-timeout=2s", "--clock-skew-allowance=0s",
	)
	op.cmd = exec.Command(program(t), append(args, further...)...)
	op.cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "DISCOVERY_TOKEN="+token, "GOMEMLIMIT="+env(t, &pod.Spec.Containers[0], "GOMEMLIMIT"))
	op.cmd.Stdout, op.cmd.Stderr = op.log, op.log
	must(t, op.cmd.Start())
	go func() { op.ended <- op.cmd.Wait() }()
	t.Cleanup(func() {
		_ = op.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the operator's log:\n%s", op.log)
		}
	})
	return op
}

// mounted writes the files of the Pod's Secrets and returns where they are: the path in the Pod, then the one here.
func mounted(t *testing.T, c client.Client, pod *corev1.Pod) (paths []string) {
	t.Helper()
	for _, v := range pod.Spec.Volumes {
		s := &corev1.Secret{}
		if v.Secret == nil || c.Get(t.Context(), client.ObjectKey{Namespace: pod.Namespace, Name: v.Secret.SecretName}, s) != nil {
			continue
		}
		dir := t.TempDir()
		for key, value := range s.Data {
			must(t, os.WriteFile(filepath.Join(dir, key), value, 0o600))
		}
		for _, m := range pod.Spec.Containers[0].VolumeMounts {
			if m.Name == v.Name {
				paths = append(paths, m.MountPath+"/", dir+"/")
			}
		}
	}
	return paths
}

// stop ends it as a kubelet does.
func (o *operator) stop(t *testing.T) {
	t.Helper()
	must(t, o.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case err := <-o.ended:
		must(t, err)
	case <-time.After(35 * time.Second):
		t.Fatal("the operator has not ended within 35 s")
	}
}

// refusals are the lines of its metrics that count requests which the API server answered with 403.
func (o *operator) refusals(t *testing.T) (refused, granted []string) {
	t.Helper()
	code, body := scrape(t, o.metrics, o.scraper)
	if code != http.StatusOK {
		t.Fatalf("metrics: %d", code)
	}
	for line := range strings.Lines(body) {
		switch {
		case !strings.HasPrefix(line, "rest_client_requests_total{"):
		case strings.Contains(line, `code="403"`):
			refused = append(refused, line)
		default:
			granted = append(granted, line)
		}
	}
	return refused, granted
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(data)
}

// writeKubeconfig logs in as the operator's service account.
func writeKubeconfig(t *testing.T, c client.Client, file string) {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	must(t, c.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: name}}, request))
	k := clientcmdapi.NewConfig()
	k.Clusters["it"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	k.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	k.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	k.CurrentContext = "it"
	must(t, clientcmd.WriteToFile(*k, file))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
