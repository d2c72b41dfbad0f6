package kubernetes

import (
	"flag"
	"net/netip"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files")

func TestSquidConfig(t *testing.T) {
	for name, s := range map[string]squidSettings{
		"credentials": {port: 3128, auth: true, refused: refusedDestinations(nil, nil)},
		"clients": {
			port: 80, clients: clientSpans(prefixes("10.0.0.0/8", "fd00::/8")),
			refused: refusedDestinations(prefixes("198.51.0.0/16"), prefixes("10.20.0.0/16")),
		},
		"both, everything allowed": {
			port: 65535, auth: true, clients: clientSpans(prefixes("10.0.0.0/8")),
			refused: refusedDestinations(nil, []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := "testdata/" + strings.NewReplacer(" ", "-", ",", "").Replace(name) + ".conf"
			got := s.config()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the configuration differs from %s (go test -update writes it):\n%s", file, got)
			}
		})
	}
}

// TestNothingRestrictsNobodyIsServed: whatever led there, a proxy without credentials and clients is no open one.
func TestNothingRestrictsNobodyIsServed(t *testing.T) {
	rules := accessRules(squidSettings{port: 3128}.config())
	if rules[len(rules)-2] != "http_access deny all" {
		t.Errorf("rules: %q", rules)
	}
}

// TestRestrictionsComeBeforeNames: a name is resolved only for whom the proxy is there.
func TestRestrictionsComeBeforeNames(t *testing.T) {
	rules := strings.Join(accessRules(squidSettings{
		port: 3128, auth: true, clients: clientSpans(prefixes("10.0.0.0/8")), refused: refusedDestinations(nil, nil),
	}.config()), "; ")
	const want = "http_access deny manager; http_access deny !CONNECT !web; http_access deny !clients; http_access deny !authenticated; http_access deny refused; http_access allow all"
	if rules != want {
		t.Errorf("rules: %s", rules)
	}
}

func accessRules(config string) (rules []string) {
	for line := range strings.Lines(config) {
		if strings.HasPrefix(line, "http_access ") {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	return rules
}

// TestEnvironmentHoldsTheLargestConfig: Linux takes 128 KiB for one variable, its name and the zero at its end included.
func TestEnvironmentHoldsTheLargestConfig(t *testing.T) {
	var clients, cluster, allowed []netip.Prefix
	for i := range maxNetworks {
		clients = append(clients, netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, byte(i), 1}), 128))
		cluster = append(cluster, netip.PrefixFrom(netip.AddrFrom4([4]byte{122, 123, byte(i), 101}), 32))
		allowed = append(allowed, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), 101}), 32))
	}
	s := squidSettings{port: 65535, auth: true, clients: clientSpans(clients), refused: refusedDestinations(cluster, allowed)}
	if n := len(configEnv) + 1 + len(s.config()) + 1; n > 128<<10 {
		t.Errorf("%d bytes", n)
	}
}
