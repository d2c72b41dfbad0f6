//go:build linux

package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

var someWindow = provider.Window{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), CallTimeout: 30 * time.Second, Skew: 5 * time.Second}

// configured opens a configuration whose pool begins in line 4. %s stands for a folder.
func configured(t *testing.T, pool string) (provider.Provider, error) {
	t.Helper()
	p, err := open(fmt.Sprintf("host: h\nstateDir: %s\nbinary: %s\n%s", t.TempDir(), binary, pool), "hosts", owner, someWindow)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, nil
}

func list(n int, item string) string { return strings.Repeat(item+"\n", n) }

func TestConfigurationErrorsNameKeyAndLine(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"no pool":               {"", "line 1: provider \"test\": local.pool: at least one entry"},
		"empty pool":            {"pool: []", "line 4: provider \"test\": local.pool: at least one entry"},
		"long pool":             {"pool:\n" + list(4097, "- listen: 127.0.0.1"), "line 5: provider \"test\": local.pool: 4097 entries, at most 4096"},
		"no address":            {"pool:\n- listen: localhost", "line 5: provider \"test\": local.pool[0].listen: \"localhost\": want an IP address"},
		"no listen":             {"pool:\n- exit: 127.0.0.1", "line 5: provider \"test\": local.pool[0].listen: \"\": want an IP address"},
		"with a port":           {"pool:\n- listen: 127.0.0.1:80", "local.pool[0].listen: \"127.0.0.1:80\": want an IP address"},
		"second entry":          {"pool:\n- listen: 127.0.0.1\n- listen: 127.0.0.2\n  exit: x", "line 7: provider \"test\": local.pool[1].exit: \"x\": want an IP address"},
		"unspecified":           {"pool:\n- listen: 0.0.0.0", "local.pool[0].listen: \"0.0.0.0\": want the address of one host"},
		"unspecified 6":         {"pool:\n- listen: '::'", "local.pool[0].listen: \"::\": want the address of one host"},
		"multicast":             {"pool:\n- listen: 224.0.0.1", "want the address of one host"},
		"link-local 6":          {"pool:\n- listen: fe80::1", "no link-local one"},
		"zone":                  {"pool:\n- listen: fe80::1%eth0", "want an IP address"},
		"host bits":             {"pool:\n- listen: 127.0.0.5/27", "local.pool[0].listen: \"127.0.0.5/27\" has bits set beyond its length; did you mean \"127.0.0.0/27\"?"},
		"bad length":            {"pool:\n- listen: 127.0.0.0/33", "want an IP address"},
		"everything":            {"pool:\n- listen: 0.0.0.0/0", "not all of it are addresses of hosts, 0.0.0.0 is in it"},
		"everything 6":          {"pool:\n- listen: ::/0", "not all of it are addresses of hosts, :: is in it"},
		"multicast network":     {"pool:\n- listen: 239.0.0.0/24", "224.0.0.0/4 is in it"},
		"mapped":                {"pool:\n- listen: ::ffff:127.0.0.0/120", "write an IPv4 network as one"},
		"exit of a network":     {"pool:\n- listen: 127.0.0.0/27\n  exit: 127.0.0.1", "line 6: provider \"test\": local.pool[0].exit: \"127.0.0.1\": a network's addresses are their own exits"},
		"same twice":            {"pool:\n- listen: 127.0.0.1\n- listen: 127.0.0.1", "line 6: provider \"test\": local.pool[1]: exit 127.0.0.1 is among those of pool[0] already"},
		"same exit":             {"pool:\n- listen: 127.0.0.1\n- listen: 127.0.0.2\n  exit: 127.0.0.1", "local.pool[1]: exit 127.0.0.1"},
		"mapped twin":           {"pool:\n- listen: 127.0.0.1\n- listen: ::ffff:127.0.0.1", "local.pool[1]: exit 127.0.0.1"},
		"inside a network":      {"pool:\n- listen: 127.0.0.0/27\n- listen: 127.0.0.9", "local.pool[1]: exit 127.0.0.9 is among those of pool[0]"},
		"network around":        {"pool:\n- listen: 127.0.0.9\n- listen: 127.0.0.0/27", "local.pool[1]: exit 127.0.0.0/27 is among those of pool[0]"},
		"unknown key":           {"pool:\n- listen: 127.0.0.1\n  port: 80", "line 6: provider \"test\": local.pool[0].port: unknown key"},
		"everybody in halves":   {"pool: [{listen: 127.0.0.1}]\nallowClients: [0.0.0.0/1, 128.0.0.0/1]", "line 5: provider \"test\": local.allowClients[0]: 0.0.0.0/1 admits everybody"},
		"everybody":             {"pool: [{listen: 127.0.0.1}]\nallowClients: [10.0.0.0/8, 0.0.0.0/0]", "line 5: provider \"test\": local.allowClients[1]: 0.0.0.0/0 admits everybody"},
		"clients' bits":         {"pool: [{listen: 127.0.0.1}]\nallowClients: [10.0.0.1/8]", "local.allowClients[0]: 10.0.0.1/8 has host bits set"},
		"empty client":          {"pool: [{listen: 127.0.0.1}]\nallowClients: ['']", "local.allowClients[0]: it is empty: want a network"},
		"destinations' bits":    {"pool: [{listen: 127.0.0.1}]\nallowDestinations:\n- 10.0.0.0/8\n- 127.0.0.1/8", "line 7: provider \"test\": local.allowDestinations[1]: \"127.0.0.1/8\" has bits set"},
		"many destinations":     {"pool: [{listen: 127.0.0.1}]\nallowDestinations:\n" + list(1025, "- 10.0.0.0/8"), "local.allowDestinations: 1025 entries, at most 1024"},
		"destination no prefix": {"pool: [{listen: 127.0.0.1}]\nallowDestinations: [all]", "line 5: provider \"test\": local.allowDestinations[0]:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(t, tc.config)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestFolderHostAndBinaryAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	everybodys := filepath.Join(dir, "everybodys")
	must(t, os.Mkdir(everybodys, 0o700))
	must(t, os.Chmod(everybodys, 0o777))
	for name, tc := range map[string]struct{ host, dir, binary, want string }{
		"host in capitals": {"HOST", dir, binary, "line 1: provider \"test\": local.host: \"HOST\": want 1 to 63"},
		"host with slash":  {"a/b", dir, binary, "local.host: \"a/b\""},
		"long host":        {strings.Repeat("a", 64), dir, binary, "local.host:"},
		"relative folder":  {"h", "state", binary, "line 2: provider \"test\": local.stateDir: \"state\": want an absolute path"},
		"folder is a file": {"h", file, binary, "line 2: provider \"test\": local.stateDir:"},
		"everybody's":      {"h", everybodys, binary, "local.stateDir: mode 0777 lets everybody write to it"},
		"no binary":        {"h", dir, dir + "/nothing", "line 3: provider \"test\": local.binary:"},
		"relative binary":  {"h", dir, "egress-proxy", "local.binary: \"egress-proxy\": want an absolute path"},
		"not executable":   {"h", dir, file, "local.binary:"},
	} {
		t.Run(name, func(t *testing.T) {
			config := fmt.Sprintf("host: %s\nstateDir: %s\nbinary: %s\npool: [{listen: 127.0.0.1}]\n", tc.host, tc.dir, tc.binary)
			if _, err := open(config, "hosts", owner, someWindow); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestConfigurationDefaults(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	t.Setenv("PATH", filepath.Dir(binary))
	p, err := open("stateDir: "+dir+"\npool: [{listen: 127.0.0.1}]\n", "hosts", owner, someWindow)
	must(t, err)
	defer p.Close()
	name, err := os.Hostname()
	must(t, err)
	if got := p.Target(provider.Ref{}); got != strings.ToLower(name) {
		t.Errorf("the host is %q, the hostname %q", got, name)
	}
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the folder was made with mode %04o", info.Mode().Perm())
	}
	t.Setenv("PATH", dir)
	if _, err := open("stateDir: "+dir+"\npool: [{listen: 127.0.0.1}]\n", "hosts", owner, someWindow); err == nil ||
		!strings.Contains(err.Error(), "there is no egress-proxy beside the operator or in PATH") {
		t.Errorf("without a binary: %v", err)
	}
}

func TestOpenProxiesAreRefused(t *testing.T) {
	const clients = "\nallowClients: [198.51.100.0/24]"
	for name, tc := range map[string]struct {
		pool          string
		auth, refused bool
	}{
		"loopback":                    {"[{listen: 127.0.0.1}, {listen: '::1'}, {listen: 127.9.0.0/16}]", false, false},
		"reachable":                   {"[{listen: 203.0.113.7}]", false, true},
		"reachable 6":                 {"[{listen: '2001:db8::/64'}]", false, true},
		"reachable network":           {"[{listen: 203.0.113.0/27}]", false, true},
		"network around loopback":     {"[{listen: 126.0.0.0/7}]", false, true},
		"one of several":              {"[{listen: 127.0.0.1}, {listen: 203.0.113.7}]", false, true},
		"only the exit is reachable":  {"[{listen: 127.0.0.1, exit: 203.0.113.7}]", false, false},
		"reachable with credentials":  {"[{listen: 203.0.113.7}]", true, false},
		"reachable with allowClients": {"[{listen: 203.0.113.7}]" + clients, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := configured(t, "pool: "+tc.pool)
			must(t, err)
			req := provider.CreateRequest{Name: provider.NameFromUID("uid"), UID: "uid", Port: 3128}
			if tc.auth {
				req.Credentials = &provider.Credentials{Username: "user", Password: "secret"}
			}
			id, err := p.Plan(context.Background(), req)
			if !tc.refused {
				must(t, err)
				return
			}
			expectClass(t, err, provider.ErrPermanent)
			if provider.Reason(err) != provider.ReasonOpenProxyRefused || id != "" {
				t.Errorf("Plan = %q, %v with reason %q", id, err, provider.Reason(err))
			}
			err = p.Create(context.Background(), req, provider.Ref{ID: "hosts/h/processes/" + req.Name, UID: "uid", Attempt: 1, RequestedAt: someWindow.Clock.Now()})
			if provider.Reason(err) != provider.ReasonOpenProxyRefused {
				t.Errorf("Create = %v", err)
			}
		})
	}
}
