package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// silentCollector starts one that takes connections and says nothing. heard tells whether one has come.
func silentCollector(t *testing.T) (address string, heard <-chan struct{}) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	come := make(chan struct{}, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		for {
			conn, err := l.Accept()
			if err != nil {
				break
			}
			all = append(all, conn)
			select {
			case come <- struct{}{}:
			default:
			}
		}
		for _, conn := range all {
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String(), come
}

// TestACollectorDoesNotHoldUpTheEnd: after SIGTERM, one that does not answer delays the end by 5 s at most, and one that is not
// there does so neither.
func TestACollectorDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	const (
		limit = 5 * time.Second
		slack = 2 * time.Second // for a machine that is busy
	)
	x := &stage{t: t, ears: newEars(), c: cluster(t)}
	x.ns = newNamespace(t, x.c)
	hanging, heard := silentCollector(t)
	hangingToo, heardToo := silentCollector(t)
	ends := func(reason string, env map[string]string, heard <-chan struct{}) time.Duration {
		t.Helper()
		x.op = startWith(t, env, kubeconfig, noProviders, "--namespace", x.ns, "--installation-id", x.ns)
		x.op.eventually(t, "/v1/proxies", 200)
		if heard != nil {
			select {
			case <-heard:
			case <-time.After(30 * time.Second):
				t.Fatalf("%s: nothing was sent", reason)
			}
		}
		x.op.eventually(t, "/v1/proxies", 200) // there is something left to send
		began := time.Now()
		if err := x.op.stop(t); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
		took := time.Since(began)
		if strings.Contains(x.op.log.String(), "sentinel") {
			t.Errorf("%s: the log shows a password", reason)
		}
		return took
	}
	without := ends("no collector", nil, nil)
	for _, tc := range []struct {
		reason, protocol, address string
		heard                     <-chan struct{}
	}{
		{"nobody listens, HTTP", "http/protobuf", ownAddress(t), nil},
		{"nobody listens, gRPC", "grpc", ownAddress(t), nil},
		{"no answer, HTTP", "http/protobuf", hanging, heard},
		{"no answer, gRPC", "grpc", hangingToo, heardToo},
	} {
		took := ends(tc.reason, map[string]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:sentinel@" + tc.address, "OTEL_EXPORTER_OTLP_PROTOCOL": tc.protocol, "OTEL_BSP_SCHEDULE_DELAY": "100",
			"OTEL_EXPORTER_OTLP_TIMEOUT": "60000", "OTEL_BSP_EXPORT_TIMEOUT": "60000",
		}, tc.heard)
		if took > without+limit+slack {
			t.Errorf("%s: the end took %s, %s without a collector", tc.reason, took, without)
		}
		t.Logf("%s: %s, without a collector %s", tc.reason, took.Round(time.Millisecond), without.Round(time.Millisecond))
	}
}
