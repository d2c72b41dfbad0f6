package kubernetes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// squidProcess is the real Squid with the provider's own configuration and command, as the user that a Pod runs it as.
type squidProcess struct {
	t      *testing.T
	dir    string
	port   int32
	cmd    *exec.Cmd
	exited chan struct{}

	mu  sync.Mutex
	log bytes.Buffer
}

func (s *squidProcess) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *squidProcess) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func needSquid(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("squid"); err != nil {
		t.Skip("squid is not installed (Debian and Ubuntu: apt-get install squid)")
	}
	if _, err := os.Stat(authHelper); err != nil {
		t.Skipf("%s is not installed (Debian and Ubuntu: apt-get install squid)", authHelper)
	}
}

// startSquid runs Squid until the test ends. creds may be nil.
func startSquid(t *testing.T, settings squidSettings, creds *provider.Credentials) *squidProcess {
	t.Helper()
	needSquid(t)
	dir, err := os.MkdirTemp("", "epx-squid-") //nolint:usetesting // another user has to get there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &squidProcess{t: t, dir: dir, port: freePort(t), exited: make(chan struct{})}
	settings.port, settings.runDir, settings.authFile, settings.auth = s.port, dir, filepath.Join(dir, authFile), creds != nil
	if creds != nil {
		s.accept(*creds, time.Now().Add(-time.Minute))
	}
	args := command(dir)
	s.cmd = exec.CommandContext(context.Background(), args[0], args[1:]...)
	s.cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/bin", configEnv + "=" + settings.config()}
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = in, in
	s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Geteuid() == 0 {
		// Squid opens its standard output anew. runc gives it to the container's user (fixStdioPermissions).
		if err := errors.Join(os.Chown(dir, proxyUser, proxyUser), in.Chown(proxyUser, proxyUser)); err != nil {
			t.Fatal(err)
		}
		s.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: proxyUser, Gid: proxyUser}
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	go func() {
		_, _ = io.Copy(s, out)
		_ = out.Close()
		_ = s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(func() { s.stop(); s.check() })
	s.eventually("Squid listening", func() bool {
		c, err := net.DialTimeout("tcp", s.address(), time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return s
}

// accept writes the helper's file as the kubelet does: in the place of the old one.
func (s *squidProcess) accept(c provider.Credentials, at time.Time) {
	s.t.Helper()
	line, err := htpasswd(c)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "new"), line, 0o644)
	}
	if err == nil {
		err = os.Chtimes(filepath.Join(s.dir, "new"), at, at)
	}
	if err = errors.Join(err, os.Rename(filepath.Join(s.dir, "new"), filepath.Join(s.dir, authFile))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *squidProcess) stop() time.Duration {
	began := time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(10 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.exited
	}
	return time.Since(began)
}

// check fails for what Squid complains about: rules that it ignores are rules that do not hold.
func (s *squidProcess) check() {
	for line := range strings.Lines(s.said()) {
		// It is no root, and so cannot become another user for a moment; a lower limit on descriptors is this host's.
		known := strings.Contains(line, "HTTP requires the use of Via") || strings.Contains(line, "no_suid") || strings.Contains(line, "max_filedescriptors")
		if (strings.Contains(line, "WARNING") || strings.Contains(line, "ERROR") || strings.Contains(line, "FATAL")) && !known {
			s.t.Errorf("Squid says: %s", line)
		}
	}
	if s.t.Failed() {
		s.t.Logf("Squid said:\n%s", s.said())
	}
}

func (s *squidProcess) eventually(what string, f func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); {
		if f() {
			return
		}
		select {
		case <-s.exited:
			s.t.Fatalf("%s: Squid has ended:\n%s", what, s.said())
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.t.Fatalf("%s did not come about:\n%s", what, s.said())
}

func (s *squidProcess) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(s.port)))
}

// get asks for a URL through Squid and returns the status, and what Squid calls its own error.
func (s *squidProcess) get(target string, user *url.Userinfo) (status int, why string) {
	proxy := &url.URL{Scheme: "http", Host: s.address(), User: user}
	tr := &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, resp.Header.Get("X-Squid-Error")
}

// raw sends a request head as it is and returns the status.
func (s *squidProcess) raw(line string, headers ...string) int {
	s.t.Helper()
	c, err := net.Dial("tcp", s.address())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Second))
	fmt.Fprintf(c, "%s\r\n%s\r\n\r\n", line, strings.Join(headers, "\r\n"))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0 // it goes on trying
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func freePort(t *testing.T) int32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// origin is a server on an address of its own.
func origin(t *testing.T, address string) *httptest.Server {
	t.Helper()
	l, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Skipf("cannot listen on %s: %v", address, err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			w.Header().Add("Saw", name)
		}
	})}}
	s.Start()
	t.Cleanup(s.Close)
	return s
}
