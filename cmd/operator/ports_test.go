package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resident is what the process has in memory, in KiB.
func (p *operatorProcess) resident(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	fatal(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	fatal(t, err)
	return n
}

func (p *operatorProcess) files(t *testing.T) int {
	t.Helper()
	open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Process.Pid))
	fatal(t, err)
	return len(open)
}

// TestStrangersAtMetricsAndProbes neither take the operator's memory nor its descriptors, nor keep the kubelet out.
func TestStrangersAtMetricsAndProbes(t *testing.T) {
	metrics := freeAddress(t)
	p := startOperator(t, "providers: []\n", "--metrics-bind-address", metrics)
	healthy := func() error {
		c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := c.Get("http://" + p.probes + "/healthz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || string(text) != "ok" {
			return fmt.Errorf("%s: %q", resp.Status, text)
		}
		return nil
	}
	until(t, "healthy", func() bool { return healthy() == nil })
	until(t, "metrics", func() bool { return strings.Contains(scrape(t, metrics), "proxy_operator_leader 1") })

	for port, address := range map[string]string{"metrics": metrics, "probes": p.probes} {
		send := func(text string) (net.Conn, *bufio.Reader) {
			conn, err := net.DialTimeout("tcp", address, 10*time.Second)
			fatal(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			fatal(t, conn.SetDeadline(time.Now().Add(30*time.Second)))
			_, _ = io.WriteString(conn, text) // it may be cut off on the way
			return conn, bufio.NewReader(conn)
		}
		// A header that is too large has its own answer.
		_, r := send("GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 64<<10) + "\r\n\r\n")
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, " 431 ") {
			t.Errorf("%s: 64 KiB of header: %q, %v", port, line, err)
		}
		// One that does not come to its end is cut off.
		began := time.Now()
		_, r = send("GET / HTTP/1.1\r\nHost:")
		if _, err := r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) > 15*time.Second {
			t.Errorf("%s: half a header: %v after %s", port, err, time.Since(began))
		}
		before, files := p.resident(t), p.files(t)
		for range 600 {
			send("GET / HTTP/1.1\r\nHost: x\r\nA: " + strings.Repeat("a", 15<<10))
		}
		if err := healthy(); err != nil {
			t.Errorf("%s: the kubelet has no answer: %v", port, err)
		}
		grown, more := p.resident(t)-before, p.files(t)-files
		t.Logf("%s: 600 strangers with 15 KiB of header each: %d KiB and %d descriptors more", port, grown, more)
		if grown > 24<<10 || more > portConnections {
			t.Errorf("%s: %d KiB and %d descriptors more, want at most 24 MiB and %d", port, grown, more, portConnections)
		}
	}
	if err := p.stop(t); err != nil {
		t.Error(err)
	}
}
