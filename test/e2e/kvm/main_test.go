//go:build e2e

package kvm

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/hack/cluster/control"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

const (
	// siteAddress is the website's: one of the internet's, which the sample's Squid does not refuse.
	siteAddress = "192.0.3.10"
	token       = "t0ken-of-the-test"
	username    = "crawler"
)

// rig is what all parts share. TestMain sets it.
type rig struct {
	dir, kubeconfig, operator, image string
	client                           client.Client
	libvirt                          *libvirt.Libvirt
	control                          control.Client
	site, secure                     *httptest.Server
	files                            *fileServer
}

var shared *rig

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx := context.Background()
	for _, name := range []string{"E2E_KVM_ADDRESS", "E2E_KVM_IMAGE", "E2E_KVM_IMAGE_SHA256", "E2E_KVM_CONTROL"} {
		if os.Getenv(name) == "" {
			return 1, fmt.Errorf("%s is not set: run make e2e-kvm", name)
		}
	}
	r := &rig{image: os.Getenv("E2E_KVM_IMAGE"), control: control.At(os.Getenv("E2E_KVM_CONTROL")), operator: os.Getenv("E2E_OPERATOR")}
	if r.dir, err = os.MkdirTemp("", "e2e-kvm-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if r.operator == "" {
		r.operator = filepath.Join(r.dir, "operator")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", r.operator, "../../../cmd/operator").CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	env, err := controlplane.New(ctx)
	if err != nil {
		return 1, err
	}
	// There is no way out from here, by which it would find an address of its own.
	env.ControlPlane.GetAPIServer().Configure().Set("advertise-address", os.Getenv("E2E_KVM_GATEWAY"))
	cfg, err := env.Start()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	r.kubeconfig = filepath.Join(r.dir, "kubeconfig")
	if err := os.WriteFile(r.kubeconfig, env.KubeConfig, 0o600); err != nil {
		return 1, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return 1, err
	}
	if r.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	target := dial.Target{
		Address: os.Getenv("E2E_KVM_ADDRESS"), User: os.Getenv("E2E_KVM_USER"), KeyFile: os.Getenv("E2E_KVM_KEY_FILE"),
		KnownHostsFile: os.Getenv("E2E_KVM_KNOWN_HOSTS_FILE"), Socket: os.Getenv("E2E_KVM_SOCKET"),
	}
	r.libvirt = libvirt.NewWithDialer(dialer(target))
	if err := r.startSites(ctx); err != nil {
		return 1, err
	}
	defer r.site.Close()
	defer r.secure.Close()
	r.files = &fileServer{path: r.image}
	images := httptest.NewServer(r.files)
	defer images.Close()
	r.files.url = images.URL
	shared = r
	return m.Run(), nil
}

type dialer dial.Target

func (d dialer) Dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return dial.Target(d).Dial(ctx)
}

// startSites serves the website that proxies are probed with and that crawlers go to. It says who has asked.
func (r *rig) startSites(ctx context.Context) error {
	if out, err := exec.CommandContext(ctx, "ip", "addr", "replace", siteAddress+"/32", "dev", "lo").CombinedOutput(); err != nil {
		return fmt.Errorf("ip addr replace: %w: %s", err, out)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/healthy" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		from, _, _ := net.SplitHostPort(req.RemoteAddr)
		_ = json.NewEncoder(w).Encode(asked{From: from, Header: req.Header})
	})
	start := func(port string, tlsConfig *tls.Config) (*httptest.Server, error) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(siteAddress, port))
		if err != nil {
			return nil, err
		}
		s := httptest.NewUnstartedServer(h)
		_ = s.Listener.Close()
		s.Listener = l
		if tlsConfig != nil {
			s.StartTLS()
		} else {
			s.Start()
		}
		return s, nil
	}
	var err error
	if r.site, err = start("80", nil); err != nil {
		return err
	}
	r.secure, err = start("443", &tls.Config{})
	return err
}

// asked is what the website says of a request.
type asked struct {
	From   string      `json:"from"`
	Header http.Header `json:"header"`
}
