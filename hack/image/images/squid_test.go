//go:build linux

package images

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// TestSquidRunsFromItsImageAlone starts the shell and Squid with the image as their whole file system, and sends requests
// that need the helper and an error page.
func TestSquidRunsFromItsImageAlone(t *testing.T) {
	if _, err := os.Stat("/usr/sbin/squid"); err != nil {
		t.Skipf("squid is not installed here: %v", err)
	}
	img, err := Squid(t.Context())
	must(t, err)
	if again, err := Squid(t.Context()); err != nil || digest(t, again) != digest(t, img) {
		t.Errorf("two builds differ: %v", err)
	}
	root := unpack(t, img)
	// What a container runtime adds.
	for _, d := range []string{"dev/shm", "run/egress-proxy", "etc/egress-proxy"} {
		must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	must(t, err)
	for file, text := range map[string]string{"dev/null": "", "dev/stdout": "", "etc/hosts": "127.0.0.1 localhost\n", "etc/egress-proxy/htpasswd": "user:" + string(hash) + "\n"} {
		must(t, os.WriteFile(filepath.Join(root, file), []byte(text), 0o666))
	}
	port := freePort(t)
	start(t, root, config(t, img).Env, port)

	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "from the origin") }))
	defer origin.Close()
	proxy := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if code, _ := get(t, proxy, origin.URL); code != http.StatusProxyAuthRequired {
		t.Errorf("without credentials: %d", code)
	}
	proxy.User = url.UserPassword("user", "secret")
	if code, body := get(t, proxy, origin.URL); code != http.StatusOK || body != "from the origin" {
		t.Errorf("with credentials: %d %q", code, body)
	}
	if code, body := get(t, proxy, "http://127.0.0.1:1/"); code != http.StatusServiceUnavailable || !strings.Contains(body, "Connection to 127.0.0.1 failed") {
		t.Errorf("a target that is not there: %d %q", code, body)
	}
}

// start runs what the provider kubernetes gives a container as its command, cut down to what matters here.
func start(t *testing.T, root string, env []string, port int) {
	t.Helper()
	settings := strings.Join([]string{
		fmt.Sprintf("http_port 127.0.0.1:%d", port), "visible_hostname egress-proxy", "pid_filename none", "coredump_dir /run/egress-proxy",
		"shutdown_lifetime 1 second", "max_filedescriptors 1024", "pinger_enable off", "netdb_filename none", "cache_log /dev/null",
		"access_log stdio:/dev/stdout", "cache deny all", "cache_mem 0 MB", "dns_nameservers 127.0.0.1",
		"auth_param basic program /usr/lib/squid/basic_ncsa_auth /etc/egress-proxy/htpasswd", "auth_param basic children 1",
		"acl authenticated proxy_auth REQUIRED", "http_access deny !authenticated", "http_access allow all", "",
	}, "\n")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `printf '%s' "$SQUID_CONF" > /run/egress-proxy/squid.conf && exec squid -N -d 1 -f /run/egress-proxy/squid.conf`)
	cmd.Env, cmd.Dir = append([]string{"SQUID_CONF=" + settings}, env...), "/"
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	// As user 13 in a user namespace, so that the test needs no privileges for changing its root.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 13, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 13, HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		cancel()
		t.Skipf("user namespaces do not work here: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	for deadline := time.Now().Add(20 * time.Second); ; {
		if c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = c.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("Squid ended:\n%s", said.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("Squid does not listen")
		}
	}
}

func get(t *testing.T, proxy *url.URL, target string) (code int, body string) {
	t.Helper()
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	r, err := c.Get(target)
	must(t, err)
	defer r.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(r.Body)
	must(t, err)
	return r.StatusCode, b.String()
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
