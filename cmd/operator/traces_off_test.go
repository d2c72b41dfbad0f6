package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

// usual listens where collectors do on this host, and tells how many have come. What somebody else listens at is left out.
func usual(t *testing.T) (come func() int, all bool) {
	t.Helper()
	var mu sync.Mutex
	n := 0
	all = true
	for _, address := range []string{"127.0.0.1:4317", "127.0.0.1:4318"} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Logf("not watched: %v", err)
			all = false
			continue
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
				if err == nil {
					_ = conn.Close()
				}
			}
		}()
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}, all
}

// TestNoTracesUnlessAskedFor: nothing is connected to and no line has a key of traces.
func TestNoTracesUnlessAskedFor(t *testing.T) {
	t.Parallel()
	r := otlptest.New(t)
	come, watched := usual(t)
	t.Cleanup(func() {
		if r.Connections() != 0 || come() != 0 {
			t.Errorf("%d connections to a collector that was named, %d to the usual ones (all watched: %t)", r.Connections(), come(), watched)
		}
	})
	for reason, env := range map[string]map[string]string{
		"nothing set": {},
		"what does not ask": {
			"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "a=b", "OTEL_TRACES_SAMPLER": "always_on", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://" + r.HTTP, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://" + r.HTTP,
		},
		"disabled": {"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://" + r.HTTP},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			x := newStage(t)
			b := x.gcp(98)
			x.backends = []*backend{b}
			x.start("", env, "--trace-health-probes")
			x.create(b, roleKept)
			x.until("Ready", func() bool { return x.done(b, roleKept, 0) })
			x.lease(b)
			x.remove(b.name(roleKept))
			x.until("gone", func() bool { return x.get(b.name(roleKept)).Name == "" })
			if err := x.op.stop(t); err != nil {
				t.Error(err)
			}
			x.silent([]string{"Compute Engine", "a VM", "the API server"})
			log := x.op.log.String()
			if !strings.Contains(log, `"msg":"pass"`) || !strings.Contains(log, `"msg":"request"`) {
				t.Error("the log lacks what it should have at this level")
			}
			if keys := traceKeys(t, log); len(keys) > 0 {
				t.Errorf("keys in the log: %v", keys)
			}
		})
	}
}

// traceKeys are the keys of the log's lines that have to do with traces.
func traceKeys(t *testing.T, log string) (out []string) {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		for key := range line {
			if k := strings.ToLower(key); strings.Contains(k, "trace") || strings.Contains(k, "span") {
				out = append(out, fmt.Sprintf("%s in %s", key, lines.Text()))
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
