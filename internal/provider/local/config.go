package local

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

const (
	// Type is the provider type's name in the configuration.
	Type = "local"
	// maxNetworks bounds allowClients and allowDestinations each: they become one argument of the process.
	maxNetworks = 1024

	binaryName = "egress-proxy"
)

// Config is the entry's `local` block.
type Config struct {
	// Host is the name under which this host appears in IDs: 1 to 63 characters of a-z, 0-9, '-' and '.'; the hostname
	// when empty. It must not change while instances exist.
	Host string `json:"host"`
	// StateDir is the folder of records, absolute; it is made if missing. Two entries must not share one.
	StateDir string `json:"stateDir"`
	// Binary is the egress-proxy to run; when empty, the one beside the operator, else the one in PATH.
	Binary string `json:"binary"`
	// Pool lists the slots. Every instance takes one address of it.
	Pool []PoolEntry `json:"pool"`
	// AllowClients are the networks whose clients may connect. Needed for listen addresses other than loopback unless
	// the Proxy has credentials.
	AllowClients []netip.Prefix `json:"allowClients"`
	// AllowDestinations opens networks that the proxy refuses otherwise: loopback, private, link-local and the like.
	AllowDestinations []netip.Prefix `json:"allowDestinations"`
}

// PoolEntry is one slot, or as many as its network has addresses.
type PoolEntry struct {
	// Listen is an address, or a network of which every address is a slot with itself as exit.
	Listen string `json:"listen"`
	// Exit is the source address towards targets; the listen address when empty. Only with a single listen address.
	Exit string `json:"exit"`
}

var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

func decode(block provider.Block) (Config, []slotRange, error) {
	var c Config
	if err := block.Decode(&c); err != nil {
		return c, nil, err
	}
	if c.Host == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, nil, block.Errorf("host", "not set, and the hostname cannot be read: %v", err)
		}
		c.Host = strings.ToLower(name)
	}
	if !hostName.MatchString(c.Host) {
		return c, nil, block.Errorf("host", "%q: want 1 to 63 characters of a-z, 0-9, '-' and '.', with a letter or digit at both ends", c.Host)
	}
	if !filepath.IsAbs(c.StateDir) {
		return c, nil, block.Errorf("stateDir", "%q: want an absolute path", c.StateDir)
	}
	slots, err := parsePool(block, c.Pool)
	if err != nil {
		return c, nil, err
	}
	for i, p := range c.AllowClients {
		if err := provider.CheckClients(p); err != nil {
			return c, nil, block.Errorf(fmt.Sprintf("allowClients[%d]", i), "%v", err)
		}
	}
	if err := checkNetworks(block, "allowClients", c.AllowClients); err != nil {
		return c, nil, err
	}
	if err := checkNetworks(block, "allowDestinations", c.AllowDestinations); err != nil {
		return c, nil, err
	}
	if c.Binary, err = findBinary(c.Binary); err != nil {
		return c, nil, block.Errorf("binary", "%v", err)
	}
	return c, slots, nil
}

// checkNetworks refuses at once what would otherwise keep every process from starting.
func checkNetworks(block provider.Block, key string, networks []netip.Prefix) error {
	if len(networks) > maxNetworks {
		return block.Errorf(key, "%d entries, at most %d are allowed", len(networks), maxNetworks)
	}
	for i, n := range networks {
		if err := canonical(n); err != nil {
			return block.Errorf(fmt.Sprintf("%s[%d]", key, i), "%v", err)
		}
	}
	return nil
}

func findBinary(configured string) (string, error) {
	if configured != "" {
		if !filepath.IsAbs(configured) {
			return "", fmt.Errorf("%q: want an absolute path", configured)
		}
		return exec.LookPath(configured)
	}
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), binaryName)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(binaryName)
	if err != nil {
		return "", fmt.Errorf("not set, and there is no %s beside the operator or in PATH", binaryName)
	}
	return filepath.Abs(path)
}
