package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const (
	// projects of the emulated Compute Engine, each an entry with a target of its own. The last one never answers.
	projects = 20
	// creation is how long a VM takes from the request until it runs.
	creation = 2 * time.Second
	// probeInterval is that of every Proxy, the API's default.
	probeInterval = 30 * time.Second
	// idleTime is how long the fleet is watched once it has settled.
	idleTime = 3 * time.Minute
	token    = "token-of-the-bench"
)

// world is all that the operator works with.
type world struct {
	n        int
	dir      string
	env      *envtest.Environment
	config   *rest.Config
	client   client.Client
	emulator *gcpemulator.Server
	proxy    *exec.Cmd
	origin   *http.Server
	url      string // the origin's
	port     int32  // the proxy's
	cage     *cage
	profile  string // file for profiles
}

func newWorld(ctx context.Context, dir string, n int) (w *world, err error) {
	w = &world{n: n, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", dir+"/", "./cmd/operator", "./cmd/egress-proxy")
	build.Dir, build.Env, build.Stderr = repository(), append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return w, fmt.Errorf("building: %w", err)
	}
	if w.env, err = controlplane.New(ctx); err != nil {
		return w, err
	}
	if w.config, err = w.env.Start(); err != nil {
		return w, err
	}
	w.config.QPS, w.config.Burst = -1, -1 // the server's own fairness is enough
	if err := os.WriteFile(w.file("kubeconfig"), w.env.KubeConfig, 0o600); err != nil {
		return w, err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return w, err
	}
	if w.client, err = client.New(w.config, client.Options{Scheme: scheme}); err != nil {
		return w, err
	}
	if err := w.serveOrigin(ctx); err != nil {
		return w, err
	}
	if err := w.startProxy(ctx); err != nil {
		return w, err
	}
	return w, w.emulate(ctx)
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

// serveOrigin serves what probes fetch.
func (w *world) serveOrigin(ctx context.Context) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.url = "http://" + l.Addr().String() + "/"
	w.origin = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) })}
	go func() { _ = w.origin.Serve(l) }()
	return nil
}

// startProxy starts the one process that serves at all loopback addresses.
func (w *world) startProxy(ctx context.Context) error {
	address, err := freePort(ctx)
	if err != nil {
		return err
	}
	w.port = int32(address.Port)
	w.proxy = exec.CommandContext(ctx, w.file("egress-proxy"), "--listen", fmt.Sprintf("0.0.0.0:%d", w.port), "--allow-clients", "127.0.0.0/8",
		"--allow-destinations", "127.0.0.0/8", "--max-connections", "65536")
	w.proxy.Stderr = os.Stderr
	return w.proxy.Start()
}

func freePort(ctx context.Context) (*net.TCPAddr, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("listening gave %T", l.Addr())
	}
	return address, nil
}

// emulate starts the cloud and writes the entries for it.
func (w *world) emulate(ctx context.Context) (err error) {
	o := gcpemulator.Options{Delays: gcpemulator.Delays{Boot: creation}, DensePages: true}
	for i := range w.n / 2 {
		o.Addresses = append(o.Addresses, address(managedNet, i))
	}
	for i := range projects {
		o.Projects = append(o.Projects, project(i))
	}
	emulator := gcpemulator.New(o)
	if w.emulator, err = emulator.Listen(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	w.emulator.Inject(gcpemulator.Match{Project: project(projects - 1)}, gcpemulator.Fault{Hang: true})
	var b strings.Builder
	b.WriteString("providers:\n")
	for i := range projects {
		fmt.Fprintf(&b, "- name: %s\n  type: gcp\n  gcp: {project: %s, endpoint: %q, anonymous: true, firewall: {existingSourceRanges: [10.0.0.0/8]}}\n",
			project(i), project(i), w.emulator.URL)
	}
	return os.WriteFile(w.file("providers.yaml"), []byte(b.String()), 0o600)
}

func project(i int) string { return fmt.Sprintf("project-%02d", i) }

// Loopback networks of the two halves.
const managedNet, externalNet = 20, 40

// address is the i-th one of a network.
func address(network, i int) string {
	return fmt.Sprintf("127.%d.%d.%d", network+i>>16, i>>8&255, i&255)
}

// reachable is how many Proxies can become Ready.
func (w *world) reachable() int { return w.n - w.n/2/projects }

func (w *world) close() error {
	var errs []error
	if w.proxy != nil && w.proxy.Process != nil {
		_ = w.proxy.Process.Kill()
		_ = w.proxy.Wait()
	}
	if w.origin != nil {
		errs = append(errs, w.origin.Close())
	}
	if w.emulator != nil {
		errs = append(errs, w.emulator.Close())
	}
	if w.env != nil && w.config != nil {
		errs = append(errs, w.env.Stop())
	}
	errs = append(errs, w.cage.close())
	return errors.Join(errs...)
}
