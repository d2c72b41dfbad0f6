package main

import (
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ownAddress is a free one that stays so: nobody's outgoing connections come from a loopback address as random as this.
func ownAddress(t *testing.T) string {
	t.Helper()
	ip := fmt.Sprintf("127.%d.%d.%d", 64+rand.IntN(128), rand.IntN(256), 1+rand.IntN(254))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// startWith runs the binary with these variables and none of OpenTelemetry's but those; what is not given gets free ports.
func startWith(t *testing.T, env map[string]string, kubeconfig, providers string, args ...string) *operatorProcess {
	t.Helper()
	file := filepath.Join(t.TempDir(), "providers.yaml")
	if err := os.WriteFile(file, []byte(providers), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &operatorProcess{api: ownAddress(t), probes: ownAddress(t), log: &lockedBuffer{}, ended: make(chan error, 1)}
	args = append([]string{
		"--providers-config", file, "--discovery-bind-address", p.api, "--health-probe-bind-address", p.probes, "--metrics-bind-address", "0",
	}, args...)
	p.Cmd = exec.Command(filepath.Join(binaries, "operator"), args...)
	p.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OTEL_") })
	p.Env = append(p.Env, "KUBECONFIG="+kubeconfig, "DISCOVERY_TOKEN=t0ken-of-the-test")
	for name, value := range env {
		p.Env = append(p.Env, name+"="+value)
	}
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

// ears are at everything that the operator speaks to by HTTP: nobody is to be told of its traces.
type ears struct {
	mu    sync.Mutex
	heard map[string]int      // requests by who got them
	told  map[string]struct{} // who got a header of traces, and which
	// asked counts the requests to an API server that are no watches, by method and path; watches are the others.
	asked   map[string]int
	watches int
}

func newEars() *ears {
	return &ears{heard: map[string]int{}, told: map[string]struct{}{}, asked: map[string]int{}}
}

// at returns next, whose requests are listened to.
func (e *ears) at(who string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		e.heard[who]++
		for _, name := range []string{"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-Traceid", "Uber-Trace-Id"} {
			if r.Header.Get(name) != "" {
				e.told[who+" "+name] = struct{}{}
			}
		}
		if r.URL.Query().Get("watch") != "" {
			e.watches++
		} else {
			e.asked[r.Method+" "+r.Host+r.URL.Path]++
		}
		e.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// noContent answers as a proxy and as a target.
func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// places starts a proxy at each of n addresses of a network of the loopback, all at one port, and returns the addresses.
func places(t *testing.T, e *ears, who string, subnet, n int, port int32) (out []string) {
	t.Helper()
	for i := range n {
		address := fmt.Sprintf("127.0.%d.%d", subnet, i+1)
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("%s:%d", address, port))
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewUnstartedServer(e.at(who, http.HandlerFunc(noContent)))
		_ = s.Listener.Close()
		s.Listener = l
		s.Start()
		t.Cleanup(s.Close)
		out = append(out, address)
	}
	return out
}

// front returns the URL of a server before the one at u. It ends with the test.
func front(t *testing.T, e *ears, who, u string) string {
	t.Helper()
	at, err := url.Parse(u)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(e.at(who, httputil.NewSingleHostReverseProxy(at)))
	t.Cleanup(s.Close)
	return s.URL
}

// kubeToken is what the kubeconfigs of a traced operator hold.
const kubeToken = "sentinel-of-the-kubeconfig"

// apiServer returns the control plane behind ears, as a kubeconfig with a token. change may change answers.
func apiServer(t *testing.T, e *ears, who string, rewrite func(*httputil.ProxyRequest), change func(*http.Response) error) (kubeconfig string) {
	t.Helper()
	behind, err := url.Parse(apiConfig.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(apiConfig)
	if err != nil {
		t.Fatal(err)
	}
	next := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if r.In.Header.Get("Authorization") != "Bearer "+kubeToken {
				t.Error("a request came without the token of the kubeconfig")
			}
			r.Out.Header.Del("Authorization")
			r.SetURL(behind)
			if rewrite != nil {
				rewrite(r)
			}
		},
		Transport: transport, FlushInterval: -1, ModifyResponse: change,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	s := httptest.NewTLSServer(e.at(who, next)) // a token is sent over nothing less
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	access := clientcmdapi.NewConfig()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	access.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: ca}
	access.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: kubeToken}
	access.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	access.CurrentContext = "x"
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*access, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}
