package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// The proxy variables of the operator's own environment never lead a probe past the proxy, nor through another one. Each
// environment gets a process of its own: Go reads the variables once.
func TestProbeIgnoresEnvironment(t *testing.T) {
	const child = "HEALTH_PROBE_CHILD"
	if os.Getenv(child) != "" {
		probeInThisEnvironment(t)
		return
	}
	var decoyed atomic.Int64
	decoy := serve(t, func(c net.Conn) { decoyed.Add(1); says("HTTP/1.1 502 Bad Gateway\r\n\r\n")(c) })
	variables := func(value string, names ...string) (env []string) {
		for _, name := range names {
			env = append(env, strings.ToUpper(name)+"="+value, name+"="+value)
		}
		return env
	}
	through := func(address string) []string {
		return variables("http://"+address, "https_proxy", "http_proxy", "all_proxy")
	}
	environments := map[string][]string{
		"a dead HTTPS_PROXY":             through("127.0.0.1:1"),
		"NO_PROXY for all":               variables("*", "no_proxy"),
		"both":                           append(through("127.0.0.1:1"), variables("*", "no_proxy")...),
		"another proxy in HTTPS_PROXY":   through(decoy.Address()),
		"a CGI's REQUEST_METHOD as well": append(through("127.0.0.1:1"), "REQUEST_METHOD=GET"),
	}
	self := t.Name()
	t.Run("group", func(t *testing.T) {
		for name, env := range environments {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), 2*enough)
				defer cancel()
				cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+self+"$", "-test.v")
				for _, kv := range os.Environ() {
					if key, _, _ := strings.Cut(kv, "="); !strings.HasSuffix(strings.ToLower(key), "_proxy") {
						cmd.Env = append(cmd.Env, kv)
					}
				}
				cmd.Env = append(append(cmd.Env, child+"=1"), env...)
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "checked in this environment") {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	})
	if decoyed.Load() == 0 {
		t.Error("the prober that heeds the environment never came to the other proxy: this test could not fail")
	}
}

func probeInThisEnvironment(t *testing.T) {
	before := os.Getenv("HTTPS_PROXY")
	if err := checkThroughProxy(t, NewProber(ProberOptions{})); err != nil {
		t.Error(err)
	}
	if err := checkThroughProxy(t, &heedfulProber{t: t}); err == nil {
		t.Errorf("a prober that heeds HTTPS_PROXY=%q and NO_PROXY=%q passes", before, os.Getenv("NO_PROXY"))
	} else {
		t.Logf("the other prober: %v", err)
	}
	t.Log("checked in this environment")
}

// checkThroughProxy probes targets of every kind and returns an error unless all went through the proxy, and did once. The
// targets on the loopback network would also answer whoever came directly; Go's own reading of the environment exempts
// these from proxying, the others not.
func checkThroughProxy(t *testing.T, p Prober) error {
	t.Helper()
	secure, ca := tlsOrigin(t, status(204))
	plain := serve(t, says("HTTP/1.1 204 No Content\r\n\r\n")).Address()
	var errs []error
	for target, want := range map[string]string{
		"https://example.com/":    "CONNECT example.com:443 HTTP/1.1",
		"https://" + secure + "/": "CONNECT " + secure + " HTTP/1.1",
		"http://target.test/":     "GET http://target.test/ HTTP/1.1",
		"http://" + plain + "/":   "GET http://" + plain + "/ HTTP/1.1",
		"http://localhost:1/?a=b": "GET http://localhost:1/?a=b HTTP/1.1",
		"https://[::1]:1/a":       "CONNECT [::1]:1 HTTP/1.1",
	} {
		var mu sync.Mutex
		var asked []string
		e := serve(t, func(c net.Conn) {
			spy := &replayConn{Conn: c}
			request, _ := head(spy)
			line, _, _ := strings.Cut(request, "\r\n")
			mu.Lock()
			asked = append(asked, line)
			mu.Unlock()
			if strings.HasPrefix(line, "CONNECT ") {
				spy.again()
				tunnels(established, secure)(spy)
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
		})
		r := p.Probe(t.Context(), Target{Endpoint: e, Probe: v1alpha1.Probe{URL: target, ExpectedStatus: 204, Timeout: enough, CABundle: ca}})
		mu.Lock()
		if !r.OK || len(asked) != 1 || asked[0] != want {
			errs = append(errs, fmt.Errorf("%s: %s, and the proxy was asked for %q", target, r.Message, asked))
		}
		mu.Unlock()
	}
	return errors.Join(errs...)
}
