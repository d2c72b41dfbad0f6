package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

var (
	kubeconfig string
	binaries   string
	apiConfig  *rest.Config
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code, err := withBinaries(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withBinaries builds what is shipped and starts a control plane for it.
func withBinaries(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "operator-test-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binaries, kubeconfig = dir, filepath.Join(dir, "kubeconfig")
	build := exec.Command("go", "build", "-o", dir+"/", ".", "../egress-proxy")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	env, err := controlplane.New(context.Background())
	if err != nil {
		return 1, err
	}
	if apiConfig, err = env.Start(); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// operator is a running operator process.
type operatorProcess struct {
	*exec.Cmd
	api, probes string
	log         *lockedBuffer
	ended       chan error
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

// startOperator runs the binary with providers and args; what is not given gets free ports.
func startOperator(t *testing.T, providers string, args ...string) *operatorProcess {
	t.Helper()
	return startOperatorOn(t, kubeconfig, providers, args...)
}

// startOperatorOn is startOperator for the control plane of that kubeconfig.
func startOperatorOn(t *testing.T, kubeconfig, providers string, args ...string) *operatorProcess {
	t.Helper()
	file := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(file, []byte(providers), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &operatorProcess{api: freeAddress(t), probes: freeAddress(t), log: &lockedBuffer{}, ended: make(chan error, 1)}
	args = append([]string{
		"--providers-config", file, "--discovery-bind-address", p.api, "--health-probe-bind-address", p.probes, "--metrics-bind-address", "0", "--metrics-secure=false",
	}, args...)
	p.Cmd = exec.Command(filepath.Join(binaries, "operator"), args...)
	p.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "DISCOVERY_TOKEN=t0ken-of-the-test")
	p.Stdout, p.Stderr = p.log, p.log
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.Wait() }()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		p.checkLog(t)
		if t.Failed() {
			t.Logf("operator's log:\n%s", p.log)
		}
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// status asks the API; 0 means that it did not answer.
func (p *operatorProcess) status(path string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.api+path, nil)
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer t0ken-of-the-test")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

func (p *operatorProcess) eventually(t *testing.T, path string, want int) {
	t.Helper()
	last := 0
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 40*time.Second, true, func(context.Context) (bool, error) {
		last = p.status(path)
		return last == want, nil
	})
	if err != nil {
		t.Fatalf("GET %s answers %d, want %d", path, last, want)
	}
}

// stop sends SIGTERM and returns how the process ended.
func (p *operatorProcess) stop(t *testing.T) error {
	t.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return p.wait(t, 30*time.Second)
}

func (p *operatorProcess) wait(t *testing.T, within time.Duration) error {
	t.Helper()
	select {
	case err := <-p.ended:
		return err
	case <-time.After(within):
		t.Fatalf("the operator has not ended within %s", within)
		return nil
	}
}

const noProviders = "providers: []\n"

//nolint:paralleltest // the election is one
func TestOneLeaderAtATimeAndAnOrderlyHandover(t *testing.T) {
	first := startOperator(t, noProviders, "--leader-elect", "--leader-election-lease-duration=5s")
	first.eventually(t, "/v1/proxies", http.StatusOK)
	clients, err := kubernetes.NewForConfig(apiConfig)
	if err != nil {
		t.Fatal(err)
	}
	holder := func() string {
		l, err := clients.CoordinationV1().Leases("default").Get(t.Context(), "egress-proxies-operator", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return holderOf(l)
	}
	led := holder()
	if led == "" {
		t.Fatal("nobody holds the election lease")
	}
	second := startOperator(t, noProviders, "--leader-elect", "--leader-election-lease-duration=5s")
	second.eventually(t, "/v1/proxies", http.StatusServiceUnavailable)
	if first.status("/v1/proxies") != http.StatusOK || holder() != led {
		t.Fatal("the standby disturbed the leader")
	}
	if err := first.stop(t); err != nil {
		t.Fatalf("after SIGTERM: %v", err)
	}
	second.eventually(t, "/v1/proxies", http.StatusOK)
	if holder() == led {
		t.Fatal("the lease still names the one that ended")
	}
	if err := second.stop(t); err != nil {
		t.Fatalf("after SIGTERM: %v", err)
	}
}

func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

func TestBadConfigurationEndsTheStartWithOneClearMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		providers string
		args      []string
		want      []string
	}{
		"an unknown type": {"providers:\n- name: a\n  type: cloud9\n", nil, []string{"cloud9", "line 3", "local"}},
		"an unknown key":  {"providers:\n- name: a\n  type: local\n  local:\n    stateDir: /nonexistent/x\n    colour: red\n", nil, []string{"colour", "line 6"}},
		"not YAML":        {"providers: [", nil, []string{"line"}},
		"an empty pool":   {"providers:\n- name: a\n  type: local\n  local:\n    stateDir: /nonexistent/x\n", nil, []string{"pool", `"a"`}},
		"a bad flag":      {noProviders, []string{"--health-workers=0"}, []string{"--health-workers=0", "1 to 10000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startOperator(t, c.providers, c.args...)
			err := p.wait(t, 30*time.Second)
			if err == nil {
				t.Fatal("it started")
			}
			for _, want := range c.want {
				if !strings.Contains(p.log.String(), want) {
					t.Errorf("%q is not in %q", want, p.log)
				}
			}
			if strings.Contains(p.log.String(), "t0ken-of-the-test") {
				t.Error("the token is in the output")
			}
		})
	}
}
