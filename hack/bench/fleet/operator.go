package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// memoryLimit is what the manifests set, 90 % of the container's limit.
const memoryLimit = "115MiB"

// operator is the process under test.
type operator struct {
	cmd          *exec.Cmd
	ended        chan error
	api, metrics string
	pprof        string // with -profile
	began        time.Time
	log          *os.File
}

// operator starts it on the whole fleet.
func (w *world) operator(ctx context.Context, verbose bool) (*operator, error) {
	o := &operator{ended: make(chan error, 1)}
	for _, a := range []*string{&o.api, &o.metrics, &o.pprof} {
		address, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		*a = address.String()
	}
	o.cmd = exec.CommandContext(ctx, w.file("operator"), "--providers-config", w.file("providers.yaml"), "--discovery-bind-address", o.api,
		"--metrics-bind-address", o.metrics, "--metrics-secure=false", "--health-probe-bind-address", "0", "--external-allow-cidrs", "127.0.0.0/8",
		"--gc-interval", "30s", "--leader-elect", "--leader-election-namespace", fleetNamespace)
	o.cmd.Env = append(os.Environ(), "KUBECONFIG="+w.file("kubeconfig"), "DISCOVERY_TOKEN="+token, "GOMEMLIMIT="+memoryLimit)
	if w.profile != "" {
		o.cmd.Args = append(o.cmd.Args, "--pprof-bind-address", o.pprof)
	}
	var err error
	if o.log, err = os.OpenFile(w.file("operator.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	o.cmd.Stdout, o.cmd.Stderr = o.log, o.log
	if verbose {
		o.cmd.Stdout, o.cmd.Stderr = os.Stderr, os.Stderr
	}
	o.began = time.Now()
	if err := o.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { o.ended <- o.cmd.Wait() }()
	return o, w.cage.take(o.cmd.Process.Pid)
}

func (o *operator) kill() {
	_ = o.cmd.Process.Kill()
	_ = o.log.Close()
}

// stop ends it in order.
func (o *operator) stop() error {
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-o.ended:
		return err
	case <-time.After(time.Minute):
		return errors.New("the operator does not end")
	}
}

// heap writes a profile of its heap.
func (o *operator) heap(ctx context.Context, file, suffix string) error {
	if file == "" {
		return nil
	}
	profile, err := get(ctx, "http://"+o.pprof+"/debug/pprof/heap")
	if err != nil {
		return err
	}
	return os.WriteFile(file+suffix, profile, 0o600)
}

// scrape reads its metrics.
func (o *operator) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	text, err := get(ctx, "http://"+o.metrics+"/metrics")
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, res.Status)
	}
	return body, err
}

// readyPoll is how exactly the time to all Ready is known.
const readyPoll = 5 * time.Second

// untilReady waits until n Proxies are Ready and returns how long that took since the start.
func (o *operator) untilReady(ctx context.Context, n int) (time.Duration, error) {
	for deadline := time.Now().Add(20 * time.Minute); time.Now().Before(deadline); {
		select {
		case err := <-o.ended:
			return 0, fmt.Errorf("the operator has ended: %w", err)
		default:
		}
		families, err := o.scrape(ctx)
		if err == nil && int(value(families["proxy_operator_proxies"], "phase", "Ready")) >= n {
			return time.Since(o.began), nil
		}
		// Not more often: each look is a scrape, which would be a quarter of all that the operator allocates.
		if err := wait(ctx, readyPoll); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no %d Proxies are Ready within 20 minutes", n)
}

// value is that of the first series with the label; of the first at all without one.
func value(f *dto.MetricFamily, label, is string) float64 {
	for _, m := range f.GetMetric() {
		if label == "" || labels(m)[label] == is {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return 0
}

// account notes what the process has used so far.
func (o *operator) account(ctx context.Context, c *cage, f figures) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.cmd.Process.Pid))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return err
			}
			f["fleet_rss_mib"] = kib / 1024
		}
	}
	if f["fleet_peak_mib"] = f["fleet_rss_mib"]; c != nil {
		if f["fleet_peak_mib"], err = c.peakMiB(); err != nil {
			return err
		}
	}
	families, err := o.scrape(ctx)
	if err != nil {
		return err
	}
	f["fleet_heap_mib"] = value(families["go_memstats_heap_inuse_bytes"], "", "") / (1 << 20)
	f["fleet_cpu_seconds"] = value(families["process_cpu_seconds_total"], "", "")
	// Go's own account, which is not comparable to the kernel's. Marking with processors that have nothing else to do takes
	// nothing from anybody.
	class := func(name string) float64 { return value(families["go_cpu_classes_"+name+"_cpu_seconds_total"], "", "") }
	busy := class("total") - class("idle") - class("gc_mark_idle")
	f["fleet_gc_cpu_percent"] = 100 * (class("gc_mark_assist") + class("gc_mark_dedicated") + class("gc_pause")) / busy
	return nil
}
