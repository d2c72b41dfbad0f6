// Package prom runs a Prometheus of its own and asks it.
package prom

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"
)

// Options say what a Prometheus is to do.
type Options struct {
	// Dir is a folder of its own, for its configuration, data and log.
	Dir string
	// Address is where it listens, host:port.
	Address string
	// Job is the name of the scrape job. Targets are scraped each second.
	Job     string
	Targets []Target
	// Rules are files with rule groups.
	Rules []string
}

// Target is what is scraped: an address, host:port, and the labels that its series get.
type Target struct {
	Address string
	Labels  map[string]string
}

// Process is a running Prometheus.
type Process struct {
	Client
	cmd   *exec.Cmd
	log   string
	ended chan error
}

// stopTimeout is how long it may take to end before it is killed.
const stopTimeout = 20 * time.Second

// Find returns where prometheus is, or an error that says how to get it.
func Find() (path string, err error) {
	if path, err = exec.LookPath("prometheus"); err != nil {
		err = fmt.Errorf("%w (Debian's package prometheus has it: hack/install monitoring)", err)
	}
	return path, err
}

// Start starts the prometheus that Find finds. It does not wait until it answers.
func Start(o Options) (*Process, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	var scraped []any
	for _, t := range o.Targets {
		scraped = append(scraped, map[string]any{"targets": []string{t.Address}, "labels": t.Labels})
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": o.Rules,
		"scrape_configs": []any{map[string]any{
			"job_name": o.Job, "honor_labels": true,
			"static_configs": scraped,
		}},
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.Dir, "prometheus.yml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	p := &Process{Client: Client{Base: "http://" + o.Address, HTTP: &http.Client{Timeout: 20 * time.Second}}, log: filepath.Join(o.Dir, "prometheus.log"), ended: make(chan error, 1)}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the process writes, not we
	p.cmd = exec.Command(path, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(o.Dir, "data"), "--web.listen-address="+o.Address,
		"--storage.tsdb.retention.time=1h", "--log.level=warn")
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// Stop ends the process, which takes some seconds at most, and returns how it ended. It must be called once.
func (p *Process) Stop() error {
	p.HTTP.CloseIdleConnections()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	select {
	case err := <-p.ended:
		if err != nil {
			return fmt.Errorf("prometheus: %w\n%s", err, p.Log())
		}
		return nil
	case <-ctx.Done():
		_ = p.cmd.Process.Kill()
		return errors.Join(errors.New("prometheus had to be killed"), <-p.ended)
	}
}

// Log returns what the process has written.
func (p *Process) Log() string {
	data, _ := os.ReadFile(p.log)
	return string(data)
}
