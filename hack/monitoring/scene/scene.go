package scene

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/test/controlplane"
)

// Scene is what runs, and what has to be stopped.
type Scene struct {
	bin, dir string
	token    string
	dark     string // an address at which nobody listens
	env      *envtest.Environment
	client   client.Client
	origin   *origin
	cloud    *cloud
	replicas []*replica
	crawlers *crawlers
	https    *http.Client // trusts the certificate of the replicas' API
}

// Start brings everything up: bin is the folder of the two binaries, dir an empty folder for all that is written. It blocks
// until one replica leads and the other stands by, which takes about ten seconds. Stop has to be
// called, also after an error.
func Start(ctx context.Context, bin, dir string) (s *Scene, err error) {
	s = &Scene{bin: bin, dir: dir, token: rand.Text()}
	if s.dark, err = FreeAddress(); err != nil {
		return s, err
	}
	if s.origin, err = startOrigin(ctx); err != nil {
		return s, err
	}
	if s.cloud, err = startCloud(ctx); err != nil {
		return s, err
	}
	if err := s.startControlPlane(ctx); err != nil {
		return s, err
	}
	tokens := fmt.Sprintf("tokens:\n- name: crawler\n  token: %s\n", rand.Text())
	if err := errors.Join(s.write("tokens.yaml", tokens), s.write("providers.yaml", s.providers(processes, projectUsed))); err != nil {
		return s, err
	}
	if err := s.certify(); err != nil {
		return s, err
	}
	// One after the other, so that it is known who leads.
	for i, status := range []int{http.StatusNotFound, http.StatusServiceUnavailable} { // of a lease that is unknown, or not_leader
		r, err := s.startReplica(fmt.Sprintf("operator-%d", i))
		if err != nil {
			return s, err
		}
		s.replicas = append(s.replicas, r)
		if err := s.answers(ctx, r, "/v1/leases/none", status); err != nil {
			return s, fmt.Errorf("%w; %s", err, r.tail())
		}
	}
	return s, nil
}

func (s *Scene) startControlPlane(ctx context.Context) (err error) {
	env, err := controlplane.New(ctx)
	if err != nil {
		return err
	}
	s.env = env
	cfg, err := env.Start()
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 1000, 2000
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if s.client, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return s.write("kubeconfig", string(env.KubeConfig))
}

// Metrics returns the addresses at which the replicas expose their metrics, host:port, that of the leader first.
func (s *Scene) Metrics() (out []string) {
	for _, r := range s.replicas {
		out = append(out, r.metrics)
	}
	return out
}

// Stop ends everything and removes what the proxies were. It errors when a process or an object is left.
func (s *Scene) Stop() error {
	var errs []error
	if s.crawlers != nil {
		s.crawlers.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	// While the API server lives, the operator can still take its proxies away.
	if s.client != nil && len(s.replicas) > 0 {
		errs = append(errs, s.deleteAll(ctx))
	}
	for _, r := range s.replicas {
		errs = append(errs, r.stop())
	}
	errs = append(errs, s.left())
	if s.env != nil {
		errs = append(errs, s.env.Stop())
	}
	if s.cloud != nil {
		errs = append(errs, s.cloud.stop())
	}
	if s.origin != nil {
		errs = append(errs, s.origin.stop())
	}
	return errors.Join(errs...)
}

// left looks at the process table for proxies of this run.
func (s *Scene) left() error {
	tables, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, path := range tables {
		cmdline, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(cmdline), s.path("proxies")) {
			return fmt.Errorf("process %s is left", strings.Split(path, "/")[2])
		}
	}
	return nil
}

func (s *Scene) path(name string) string { return filepath.Join(s.dir, name) }

// write exchanges a file at once, so that nobody reads half of it.
func (s *Scene) write(name, text string) error {
	if err := os.WriteFile(s.path(name)+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(s.path(name)+".new", s.path(name))
}

// until tries until check succeeds; its last error comes back when within has passed.
func until(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("not within %s: %w", within, errors.Join(last, ctx.Err()))
	}
	return nil
}
