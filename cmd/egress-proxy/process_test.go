package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/local/instancelock"
)

const patience = 30 * time.Second

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "egress-proxy-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaryDir = dir
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

var binaryDir string

// binary is built once for all tests of the real process.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir, "egress-proxy")
	out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// running is one process of the real binary.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	report string // what it said on its ready descriptor
	stderr io.ReadCloser
	lines  *bufio.Reader
	waited error
	ended  bool
}

// start returns when the process has reported its start, good or bad.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	path, err := binary()
	must(t, err)
	readReport, writeReport, err := os.Pipe()
	must(t, err)
	defer readReport.Close()
	cmd := exec.Command(path, append([]string{"--listen=127.0.0.1:0", "--ready-fd=3"}, args...)...)
	cmd.ExtraFiles = []*os.File{writeReport}
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	must(t, writeReport.Close())
	r := &running{t: t, cmd: cmd, stderr: stderr, lines: bufio.NewReader(stderr)}
	t.Cleanup(func() { r.signal(syscall.SIGKILL); r.wait() })
	must(t, readReport.SetReadDeadline(time.Now().Add(patience)))
	// To the end: it is closed after the one message.
	report, err := io.ReadAll(readReport)
	must(t, err)
	r.report = string(report)
	return r
}

func (r *running) signal(sig syscall.Signal) { _ = r.cmd.Process.Signal(sig) }

// wait returns the exit code; -1 for a signal's.
func (r *running) wait() int {
	r.t.Helper()
	if !r.ended {
		r.ended = true
		kill := time.AfterFunc(patience, func() { _ = r.cmd.Process.Kill() })
		defer kill.Stop()
		r.waited = r.cmd.Wait()
	}
	return r.cmd.ProcessState.ExitCode()
}

// address is where it listens, read from its log.
func (r *running) address() string {
	r.t.Helper()
	line, err := r.lines.ReadBytes('\n')
	must(r.t, err)
	var entry struct{ Msg, Address string }
	must(r.t, json.Unmarshal(line, &entry))
	if entry.Msg != "listening" {
		r.t.Fatalf("first line of the log: %s", line)
	}
	return entry.Address
}

func stateFile(t *testing.T) (string, *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(path, []byte("{}"), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return path, f
}

func TestProcessHoldsItsStateFileForLife(t *testing.T) {
	path, f := stateFile(t)
	r := start(t, "--state-file="+path)
	if r.report != "ready\n" {
		t.Fatalf("report %q", r.report)
	}
	if pid, held, err := instancelock.Holder(f); err != nil || !held || pid != r.cmd.Process.Pid {
		t.Fatalf("holder %d %t %v, want %d", pid, held, err, r.cmd.Process.Pid)
	}

	second := start(t, "--state-file="+path)
	if !strings.HasPrefix(second.report, "error: ") || strings.Count(second.report, "\n") != 1 {
		t.Fatalf("report of a second one %q", second.report)
	}
	if code := second.wait(); code != exitState {
		t.Fatalf("a second one ended with %d", code)
	}
	if _, held, err := instancelock.Holder(f); err != nil || !held {
		t.Fatalf("the second one's attempt dropped the lock: %t %v", held, err)
	}

	r.signal(syscall.SIGKILL)
	r.wait()
	if _, held, err := instancelock.Holder(f); err != nil || held {
		t.Fatalf("held %t after kill -9, %v", held, err)
	}
	if again := start(t, "--state-file="+path); again.report != "ready\n" {
		t.Fatalf("a successor reports %q", again.report)
	}
}

func TestProcessDoesNotStartWithoutItsStateFile(t *testing.T) {
	path, f := stateFile(t)
	absent := start(t, "--state-file="+path+".absent")
	if code := absent.wait(); code != exitState || !strings.Contains(absent.report, "--state-file") {
		t.Fatalf("exit code %d, report %q", code, absent.report)
	}
	if _, err := os.Stat(path + ".absent"); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("it created the record that it lacked")
	}
	release, err := instancelock.TryTake(f)
	must(t, err)
	defer func() { _ = release() }()
	deleted := start(t, "--state-file="+path)
	if code := deleted.wait(); code != exitState {
		t.Fatalf("exit code %d while a deleter has the file", code)
	}
}

func TestProcessEndsWhenItsRecordIsGone(t *testing.T) {
	cases := []struct {
		name   string
		change func(path string) error
	}{
		{"removed", os.Remove},
		{"replaced", func(path string) error {
			if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			path, _ := stateFile(t)
			r := start(t, "--state-file="+path)
			must(t, tc.change(path))
			if code := r.wait(); code != exitState {
				t.Fatalf("exit code %d", code)
			}
		})
	}
}

func TestProcessReportsWhyItCannotListen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	r := start(t, "--listen="+l.Addr().String())
	if code := r.wait(); code != exitFailure || !strings.HasPrefix(r.report, "error: --listen") || strings.Count(r.report, "\n") != 1 {
		t.Fatalf("exit code %d, report %q", code, r.report)
	}
	bad := start(t, "--idle-timeout=100h")
	if code := bad.wait(); code != exitUsage || !strings.HasPrefix(bad.report, "error: --idle-timeout") {
		t.Fatalf("exit code %d, report %q", code, bad.report)
	}
}

func TestProcessProxiesAndStopsGracefully(t *testing.T) {
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer origin.Close()
	auth := filepath.Join(t.TempDir(), "auth")
	write(t, auth, "user:one", 0o600)
	r := start(t, "--auth-file="+auth, "--allow-destinations=127.0.0.0/8", "--access-log")
	proxy := r.address()

	client, upstream := open(t, proxy, origin, "user:one")
	// Rotation needs no restart.
	write(t, auth+".new", "user:two", 0o600)
	rename(t, auth+".new", auth)
	eventually(t, "the new credentials are in force", func() bool { return status(t, proxy, "user:two") == http.StatusBadRequest })
	if got := status(t, proxy, "user:one"); got != http.StatusProxyAuthRequired {
		t.Fatalf("old credentials get %d", got)
	}

	// Neither the end of whoever reads its log nor of its terminal ends it.
	must(t, r.stderr.Close())
	r.signal(syscall.SIGHUP)
	if got := status(t, proxy, "user:one"); got != http.StatusProxyAuthRequired {
		t.Fatalf("got %d", got)
	}

	r.signal(syscall.SIGTERM)
	eventually(t, "the port is closed", func() bool {
		c, err := net.Dial("tcp", proxy)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	_, err = io.WriteString(client, "last words")
	must(t, err)
	got := make([]byte, len("last words"))
	_, err = io.ReadFull(upstream, got)
	must(t, err)
	must(t, client.Close())
	must(t, upstream.Close())
	if code := r.wait(); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
}

func TestProcessCutsAtTheEndOfTheGrace(t *testing.T) {
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer origin.Close()
	for _, second := range []bool{false, true} {
		grace := "--shutdown-grace=100ms"
		if second {
			grace = "--shutdown-grace=10m" // ended early by a second signal
		}
		r := start(t, "--allow-destinations=127.0.0.0/8", grace)
		client, _ := open(t, r.address(), origin, "")
		r.signal(syscall.SIGINT)
		if second {
			// Two equal signals that are pending at once would become one.
			_, err := r.lines.ReadBytes('\n')
			must(t, err)
			r.signal(syscall.SIGINT)
		}
		if _, err := io.ReadAll(client); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("the tunnel is still open")
		}
		if code := r.wait(); code != exitOK {
			t.Fatalf("exit code %d", code)
		}
	}
}

// open makes a tunnel and returns both ends.
func open(t *testing.T, proxy string, origin net.Listener, pair string) (client, upstream net.Conn) {
	t.Helper()
	client, err := net.Dial("tcp", proxy)
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	must(t, client.SetDeadline(time.Now().Add(patience)))
	fmt.Fprintf(client, "CONNECT %s HTTP/1.1\r\nHost: x\r\n%s\r\n", origin.Addr(), proxyAuth(pair))
	line, err := bufio.NewReaderSize(io.LimitReader(client, int64(len("HTTP/1.1 200 Connection established\r\n\r\n"))), 64).ReadString('\n')
	must(t, err)
	if !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Fatalf("CONNECT got %q", line)
	}
	must(t, origin.(*net.TCPListener).SetDeadline(time.Now().Add(patience)))
	upstream, err = origin.Accept()
	must(t, err)
	t.Cleanup(func() { _ = upstream.Close() })
	return client, upstream
}

// status asks for something that is refused with 400 once authorized.
func status(t *testing.T, proxy, pair string) int {
	t.Helper()
	c, err := net.Dial("tcp", proxy)
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", proxyAuth(pair))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	must(t, resp.Body.Close())
	return resp.StatusCode
}

func proxyAuth(pair string) string {
	if pair == "" {
		return ""
	}
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) + "\r\n"
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	expired := time.After(patience)
	for !condition() {
		select {
		case <-ticker.C:
		case <-expired:
			t.Fatalf("timed out waiting: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
