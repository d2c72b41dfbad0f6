package kubernetes

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

func TestRealSquidParsesEveryConfig(t *testing.T) {
	t.Parallel()
	needSquid(t)
	files, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		out, err := exec.CommandContext(t.Context(), "squid", "-k", "parse", "-f", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "WARNING") && !strings.Contains(line, "HTTP requires the use of Via") || strings.Contains(line, "ERROR") || strings.Contains(line, "FATAL") {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
}

func TestRealSquidEnforcesCredentials(t *testing.T) {
	t.Parallel()
	const password = "p%40ss wörd&=+/?#[]0123456789"
	creds := provider.Credentials{Username: "Crawler", Password: password}
	site := origin(t, "127.0.0.1")
	s := startSquid(t, squidSettings{refused: refusedDestinations(nil, prefixes("127.0.0.1/32"))}, &creds)
	for _, tc := range []struct {
		reason string
		user   *url.Userinfo
		want   int
	}{
		{"no credentials", nil, http.StatusProxyAuthRequired},
		{"another password", url.UserPassword("Crawler", password+"x"), http.StatusProxyAuthRequired},
		{"the password's beginning", url.UserPassword("Crawler", password[:8]), http.StatusProxyAuthRequired},
		{"another user", url.UserPassword("somebody", password), http.StatusProxyAuthRequired},
		{"the user in another case", url.UserPassword("crawler", password), http.StatusProxyAuthRequired},
		{"the credentials", url.UserPassword("Crawler", password), http.StatusOK},
	} {
		if status, why := s.get(site.URL, tc.user); status != tc.want {
			t.Errorf("%s: %d (%s), want %d", tc.reason, status, why, tc.want)
		}
	}
	host := strings.TrimPrefix(site.URL, "http://")
	if got := s.raw("CONNECT "+host+" HTTP/1.1", "Host: "+host); got != http.StatusProxyAuthRequired {
		t.Errorf("CONNECT without credentials: %d", got)
	}
	basic := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("Crawler:"+password))
	if got := s.raw("CONNECT "+host+" HTTP/1.1", "Host: "+host, basic); got != http.StatusOK {
		t.Errorf("CONNECT with credentials: %d", got)
	}
	if said := s.said(); !strings.Contains(said, site.URL) || strings.Contains(said, "Crawler") || strings.Contains(said, password[:8]) {
		t.Errorf("the log has no requests, or credentials:\n%s", said)
	}
}

func TestRealSquidTakesTheLongestCredentials(t *testing.T) {
	t.Parallel()
	creds := provider.Credentials{Username: strings.Repeat("ü%", maxUser/3), Password: strings.Repeat("ö", maxPassword/2)}
	if err := checkCredentials(creds); err != nil {
		t.Fatal(err)
	}
	site := origin(t, "127.0.0.1")
	s := startSquid(t, squidSettings{refused: refusedDestinations(nil, prefixes("127.0.0.1/32"))}, &creds)
	if status, why := s.get(site.URL, url.UserPassword(creds.Username, creds.Password)); status != http.StatusOK {
		t.Errorf("%d (%s)", status, why)
	}
}

func TestRealSquidFollowsRotation(t *testing.T) {
	t.Parallel()
	creds := func(n string) provider.Credentials {
		return provider.Credentials{Username: "user", Password: "password-" + n}
	}
	first := creds("1")
	site := origin(t, "127.0.0.1")
	s := startSquid(t, squidSettings{refused: refusedDestinations(nil, prefixes("127.0.0.1/32"))}, &first)
	ask := func(n string) int {
		status, _ := s.get(site.URL, url.UserPassword("user", creds(n).Password))
		return status
	}
	if got := ask("1"); got != http.StatusOK {
		t.Fatalf("before: %d", got)
	}
	s.accept(creds("2"), time.Now())
	began := time.Now()
	s.eventually("the new credentials alone", func() bool {
		// A client with the old ones keeps asking.
		return ask("1") == http.StatusProxyAuthRequired && ask("2") == http.StatusOK
	})
	took := time.Since(began)
	t.Logf("followed within %s", took.Round(time.Second))
	if took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestRealSquidRefusesDestinations(t *testing.T) {
	t.Parallel()
	allowed, refused := origin(t, "127.0.0.2"), origin(t, "127.0.0.1")
	port := refused.Listener.Addr().(*net.TCPAddr).Port
	s := startSquid(t, squidSettings{
		clients: clientSpans(prefixes("127.0.0.0/8")), refused: refusedDestinations(prefixes("8.8.4.0/24"), prefixes("127.0.0.2/32")),
	}, nil)
	if status, why := s.get(allowed.URL, nil); status != http.StatusOK {
		t.Errorf("what the entry allows: %d (%s)", status, why)
	}
	for _, host := range []string{
		"127.0.0.1", "127.255.255.255", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1",
		"169.254.169.254", "168.63.129.16", "172.16.0.1", "192.168.1.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.254", "255.255.255.255",
		"8.8.4.4", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::127.0.0.1]", "[64:ff9b::a00:1]", "[64:ff9b::7f00:1]", "[2002:a00:1::]", "[fd00::1]",
		"[fe80::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[2001::1]", "[100::1]", "[fd00:ec2::254]",
	} {
		address := fmt.Sprintf("%s:%d", host, port)
		for _, line := range []string{"GET http://" + address + "/ HTTP/1.1", "CONNECT " + address + " HTTP/1.1"} {
			// Squid does not even parse some of them.
			if got := s.raw(line, "Host: "+address); got != http.StatusForbidden && got != http.StatusBadRequest {
				t.Errorf("%s: %d", line, got)
			}
		}
	}
	for _, host := range []string{"8.8.8.8", "1.1.1.1", "223.255.255.254", "[2606:4700::1111]", "[64:ff9b::808:808]"} {
		address := host + ":9"
		if got := s.raw("CONNECT "+address+" HTTP/1.1", "Host: "+address); got == http.StatusForbidden {
			t.Errorf("%s is refused", host)
		}
	}
	for reason, line := range map[string]string{
		"the cache manager": "GET http://" + s.address() + "/squid-internal-mgr/menu HTTP/1.1",
		"another protocol":  "GET ftp://127.0.0.2/ HTTP/1.1",
	} {
		if got := s.raw(line, "Host: x"); got != http.StatusForbidden && got != http.StatusNotFound {
			t.Errorf("%s: %d", reason, got)
		}
	}
}

func TestRealSquidAdmitsClientsOfItsNetworksAlone(t *testing.T) {
	t.Parallel()
	site := origin(t, "127.0.0.1")
	open := refusedDestinations(nil, prefixes("127.0.0.1/32"))
	for _, tc := range []struct {
		clients []netip.Prefix
		want    int
	}{
		{prefixes("127.0.0.0/8"), http.StatusOK},
		{prefixes("0.0.0.0/1"), http.StatusOK},
		{prefixes("10.0.0.0/8"), http.StatusForbidden},
		{prefixes("128.0.0.0/1"), http.StatusForbidden},
		{prefixes("::/8"), http.StatusForbidden}, // the mapped addresses are in it
	} {
		s := startSquid(t, squidSettings{clients: clientSpans(tc.clients), refused: open}, nil)
		if status, why := s.get(site.URL, nil); status != tc.want {
			t.Errorf("clients %v: %d (%s), want %d", tc.clients, status, why, tc.want)
		}
		s.stop()
	}
}

func TestRealSquidTellsTargetsNothing(t *testing.T) {
	t.Parallel()
	site := origin(t, "127.0.0.1")
	s := startSquid(t, squidSettings{clients: clientSpans(prefixes("127.0.0.0/8")), refused: refusedDestinations(nil, prefixes("127.0.0.1/32"))}, nil)
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: s.address()}), DisableKeepAlives: true}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, site.URL, nil)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, name := range resp.Header.Values("Saw") {
		switch name {
		case "Via", "X-Forwarded-For", "Forwarded", "Proxy-Authorization":
			t.Errorf("the target saw %s", name)
		}
	}
}

func TestRealSquidStopsFastAndStaysSmall(t *testing.T) {
	t.Parallel()
	site := origin(t, "127.0.0.1")
	s := startSquid(t, squidSettings{clients: clientSpans(prefixes("127.0.0.0/8")), refused: refusedDestinations(nil, prefixes("127.0.0.1/32"))}, nil)
	host := strings.TrimPrefix(site.URL, "http://")
	c, err := net.Dial("tcp", s.address()) // a tunnel that its client does not close
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", host, host)
	if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		t.Fatal(err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", s.cmd.Process.Pid))
	if err == nil {
		var soft int
		for line := range strings.Lines(string(limits)) {
			if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
				_, _ = fmt.Sscan(rest, &soft)
			}
		}
		if soft <= 0 || soft > maxDescriptors {
			t.Errorf("%d descriptors, want at most %d", soft, maxDescriptors)
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "Name") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if took := s.stop(); took > stopGrace*time.Second {
		t.Errorf("it took %s to stop", took)
	} else {
		t.Logf("stopped within %s", took.Round(100*time.Millisecond))
	}
}
