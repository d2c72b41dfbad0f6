package health

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// enough never passes in a good run; short is for probes that are to time out.
	enough = 30 * time.Second
	short  = 250 * time.Millisecond
	// slack is how late a machine under load may notice that a time is over.
	slack = 10 * time.Second
)

// secrets that nothing may show. Misbehaving proxies and origins repeat them.
var secrets = provider.Credentials{Username: "sentinel-user", Password: "sentinel-pass"}

// secretQuery is part of the probe URLs, whose query may hold a token.
const secretQuery = "?token=sentinel-query"

func basic(c provider.Credentials) string {
	return base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
}

// leak returns the secret that text shows, "" when it shows none.
func leak(text string) string {
	for _, secret := range []string{"sentinel", basic(secrets), basic(secrets)[:12]} {
		if strings.Contains(text, secret) {
			return secret
		}
	}
	return ""
}

func checkMessage(t *testing.T, r Result) {
	t.Helper()
	if r.Message == "" || len(r.Message) > MaxMessageBytes || !utf8.ValidString(r.Message) {
		t.Errorf("message %q: empty, too long or not UTF-8", r.Message)
	}
	if secret := leak(r.Message + r.Reason); secret != "" {
		t.Errorf("message %q shows a secret, %q", r.Message, secret)
	}
}

// passes is the reason of a probe that succeeded.
const passes = v1alpha1.ReasonProbeSucceeded

// row is a misbehaving proxy or origin, each a small real server, and what a probe of it has to find.
type row struct {
	name string
	// url is https://example.com/ when empty; its query is added.
	url string
	// origin answers 204 when nil. sign and configure change its certificate and its TLS.
	origin    http.HandlerFunc
	sign      func(*x509.Certificate)
	configure func(*tls.Config)
	// tunnel is what the proxy says before it tunnels to the origin; established when empty.
	tunnel string
	// proxy takes the place of one that tunnels.
	proxy func(net.Conn)
	probe func(*v1alpha1.Probe)
	// want is the reason, says a part of the message.
	want, says string
	// aboutIt: the refusal is the target's.
	aboutIt bool
}

func rows() []row {
	return slices.Concat(connectRows(), tunnelRows(), answerRows(), plainRows())
}

// target starts the row's servers.
func (c row) target(t testing.TB) Target {
	t.Helper()
	if c.origin == nil {
		c.origin = status(http.StatusNoContent)
	}
	address, ca := tlsOriginWith(t, c.origin, c.sign, c.configure)
	if c.tunnel == "" {
		c.tunnel = established
	}
	if c.proxy == nil {
		c.proxy = tunnels(c.tunnel, address)
	}
	if c.url == "" {
		c.url = "https://example.com/"
	}
	target := Target{
		Endpoint:    serve(t, c.proxy),
		Credentials: &secrets,
		Probe:       v1alpha1.Probe{URL: c.url + secretQuery, ExpectedStatus: 204, Timeout: enough, CABundle: ca},
	}
	if c.want == v1alpha1.ReasonTimeout {
		target.Probe.Timeout = short
	}
	if c.probe != nil {
		c.probe(&target.Probe)
	}
	return target
}

func TestProbe(t *testing.T) {
	t.Parallel()
	documented := readDocs(t)
	for _, c := range rows() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target := c.target(t)
			p := NewProber(ProberOptions{})
			// Twice: what has been seen once must not change what is seen next.
			for range 2 {
				r := patiently(t, p, target, c.says)
				checkMessage(t, r)
				if r.Reason != c.want || r.OK != (c.want == passes) || !strings.Contains(r.Message, c.says) || r.TargetRefused != c.aboutIt || r.Inconclusive {
					t.Errorf("got %+v, want reason %s, message with %q, TargetRefused %v", r, c.want, c.says, c.aboutIt)
				}
				if r.Latency <= 0 || r.Latency >= enough+slack {
					t.Errorf("latency %v", r.Latency)
				}
				if !r.OK && !documented.has(r.Reason, r.Message) {
					t.Errorf("docs/unhealthy.md does not list %q under %s", r.Message, r.Reason)
				}
			}
		})
	}
}

// patiently probes again, with more time, while a time-out comes at an earlier stage than the one that hangs: this machine
// was too slow to get there.
func patiently(t *testing.T, p Prober, target Target, says string) Result {
	t.Helper()
	for {
		r := p.Probe(t.Context(), target)
		if r.Reason != v1alpha1.ReasonTimeout || strings.Contains(r.Message, says) || target.Probe.Timeout > slack {
			return r
		}
		target.Probe.Timeout *= 4
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(enough); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

func TestClean(t *testing.T) {
	long := strings.Repeat("ü", MaxMessageBytes)
	if got := clean("x" + long); len(got) != MaxMessageBytes-1 || !utf8.ValidString(got) {
		t.Errorf("cut to %d bytes, valid %v", len(got), utf8.ValidString(got))
	}
	if got := clean("a\xffb\nc"); got != "a\uFFFDb c" {
		t.Errorf("got %q", got)
	}
}
