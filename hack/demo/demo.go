package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

// demo is what runs, and what has to be stopped.
type demo struct {
	once  bool
	stage stage

	dir        string // everything the demo writes
	kubeconfig string
	env        *envtest.Environment
	client     client.Client

	origin     *http.Server
	originURL  string
	operator   *exec.Cmd
	operatorTo string // the operator's log file
	external   *exec.Cmd

	token              string
	apiURL, metricsURL string
	ports              ports
	leaseID, leased    string
}

// ports are free ones, found at the start.
type ports struct{ proxy, api, metrics, probes int }

// externalAddress is listen and exit address of the External proxy, on the loopback network.
const externalAddress = "127.0.81.100"

const namespace = "default"

func (d *demo) startControlPlane(ctx context.Context) (err error) {
	if d.ports, err = freePorts(); err != nil {
		return err
	}
	if d.dir, err = os.MkdirTemp("", "egress-demo-"); err != nil {
		return err
	}
	if d.env, err = controlplane.New(ctx); err != nil {
		return err
	}
	cfg, err := d.env.Start()
	if err != nil {
		return err
	}
	d.kubeconfig = filepath.Join(d.dir, "kubeconfig")
	if err := os.WriteFile(d.kubeconfig, d.env.KubeConfig, 0o600); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if d.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	// For two seconds after a CRD is established the API server delays every creation of its objects. In a cluster that
	// is long past when somebody applies a Proxy, so the demo lets it pass here: this creation is validated and dropped.
	return d.client.Create(ctx, d.objects()[0], client.DryRunAll)
}

// startOrigin serves what a crawler would fetch: the source address of whoever asks.
func (d *demo) startOrigin(context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	d.originURL = "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprint(w, host)
	})
	d.origin = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = d.origin.Serve(l) }()
	return nil
}

func (d *demo) startOperator(ctx context.Context) error {
	d.token = rand.Text()
	d.apiURL = fmt.Sprintf("http://127.0.0.1:%d", d.ports.api)
	d.metricsURL = fmt.Sprintf("http://127.0.0.1:%d/metrics", d.ports.metrics)
	config := filepath.Join(d.dir, "providers.yaml")
	_, entry := d.stage.entry()
	if err := os.WriteFile(config, []byte("providers:\n"+entry), 0o600); err != nil {
		return err
	}
	d.operatorTo = filepath.Join(d.dir, "operator.log")
	log, err := os.Create(d.operatorTo)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the operator writes, not we
	self := func(name string) string { return filepath.Join(binDir(), name) }
	d.operator = exec.CommandContext(context.WithoutCancel(ctx), self("operator"),
		"--providers-config", config,
		"--discovery-bind-address", fmt.Sprintf("127.0.0.1:%d", d.ports.api),
		"--metrics-bind-address", fmt.Sprintf("127.0.0.1:%d", d.ports.metrics),
		"--health-probe-bind-address", fmt.Sprintf("127.0.0.1:%d", d.ports.probes),
		"--metrics-secure=false", "--require-auth", "--drift-poll", "1s", "--drain-timeout", "5s", "--log-level", "1",
		"--external-allow-cidrs", "127.0.0.0/8",
	)
	d.operator.Env = append(os.Environ(), "KUBECONFIG="+d.kubeconfig, "DISCOVERY_TOKEN="+d.token)
	d.operator.Stdout, d.operator.Stderr = log, log
	d.operator.SysProcAttr = ownGroup()
	if err := d.operator.Start(); err != nil {
		return fmt.Errorf("%w (make build makes the binaries)", err)
	}
	return eventually(ctx, 30*time.Second, func() error {
		return d.get(ctx, "/healthz", nil)
	})
}

func (d *demo) startExternal(ctx context.Context) error {
	listen := net.JoinHostPort(externalAddress, strconv.Itoa(d.ports.proxy))
	d.external = exec.CommandContext(context.WithoutCancel(ctx), filepath.Join(binDir(), "egress-proxy"),
		"--listen", listen, "--exit-address", externalAddress, "--allow-destinations", "127.0.0.0/8")
	d.external.SysProcAttr = ownGroup()
	if err := d.external.Start(); err != nil {
		return err
	}
	return eventually(ctx, 5*time.Second, func() error {
		conn, err := net.DialTimeout("tcp", listen, time.Second)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// stop ends everything the demo started and removes what it wrote.
func (d *demo) stop() error {
	var errs []error
	// While the API server lives, the operator can still take its proxies away.
	if d.client != nil && d.operator != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		errs = append(errs, d.deleteAll(ctx))
	}
	for _, cmd := range []*exec.Cmd{d.operator, d.external} {
		errs = append(errs, end(cmd))
	}
	errs = append(errs, d.stage.stop())
	if d.origin != nil {
		errs = append(errs, d.origin.Close())
	}
	if d.env != nil {
		errs = append(errs, d.env.Stop())
	}
	if d.dir != "" {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// ownGroup keeps a terminal's Ctrl-C from a process: the demo ends it itself, once it has taken its proxies away.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// end asks a process to end and kills it when it does not within 30 seconds.
func end(cmd *exec.Cmd) error {
	if cmd == nil || cmd.Process == nil {
		return nil
	}
	timer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

// operatorLog returns the last lines of the operator's log, for a failed step.
func (d *demo) operatorLog() string {
	data, err := os.ReadFile(d.operatorTo)
	if err != nil {
		return ""
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return "the operator's last lines:\n" + string(bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}

func binDir() string {
	if dir := os.Getenv("DEMO_BIN"); dir != "" {
		return dir
	}
	return "bin"
}

func freePorts() (ports, error) {
	var p ports
	for _, to := range []*int{&p.proxy, &p.api, &p.metrics, &p.probes} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, err
		}
		defer l.Close()                    //nolint:errcheck // only to learn a free port
		*to = l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener
	}
	return p, nil
}

// eventually tries until try succeeds; the last error comes back when within has passed.
func eventually(ctx context.Context, within time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", within, err)
		case <-tick.C:
		}
	}
}
