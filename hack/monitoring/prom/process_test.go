package prom_test

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/hack/monitoring/prom"
)

func TestWithoutPrometheusThereIsNoProcess(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := prom.Start(prom.Options{Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "package prometheus") {
		t.Errorf("the error is %v, want one that says what to install", err)
	}
}

// TestARealOne sees that the labels of a series win over those of the target, that rules are loaded, and that it ends.
func TestARealOne(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		if os.Getenv("REQUIRE_PROMTOOL") != "" {
			t.Fatal(err)
		}
		t.Skip("there is no prometheus; hack/install monitoring installs it")
	}
	rules := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(rules, []byte("groups: [{name: g, rules: [{record: twice, expr: 2 * a_metric}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var asked []*http.Request
	target := client(t, http.StatusOK, "a_metric{namespace=\"of-the-series\"} 7\n", &asked)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	p, err := prom.Start(prom.Options{
		Dir: t.TempDir(), Address: free.Addr().String(), Job: "j", Rules: []string{rules},
		Targets: []prom.Target{{Address: strings.TrimPrefix(target.Base, "http://"), Labels: map[string]string{"namespace": "of-the-target", "instance": "i"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := net.DialTimeout("tcp", free.Addr().String(), time.Second); err == nil {
			t.Error("it still listens")
		}
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for {
		ok, err := p.True(t.Context(), `twice{job="j",instance="i",namespace="of-the-series"} == 14`)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it does not show what it should: %v\n%s", err, p.Log())
		}
	}
}
