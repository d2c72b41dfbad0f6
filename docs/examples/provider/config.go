package boxes

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// Type is the provider type's name in the configuration.
const Type = "boxes"

const maxRacks = 64

// Config is the entry's `boxes` block.
type Config struct {
	// Endpoint is the base URL of the service: https, or http on this machine. Required.
	Endpoint string `json:"endpoint"`
	// TokenFile is the absolute path of a file with the token, which is read for every call. Required.
	TokenFile string `json:"tokenFile"`
	// Racks are where boxes may be; a Proxy that names none gets the first one. 1 to 64.
	Racks []string `json:"racks"`
}

var rackName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// decode reads the block. Decode itself refuses unknown keys and wrong types; what is left is what the values mean.
func decode(block provider.Block) (Config, error) {
	var c Config
	if err := block.Decode(&c); err != nil {
		return c, err
	}
	u, err := url.Parse(c.Endpoint)
	local := err == nil && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost")
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && (u.Scheme != "http" || !local):
		return c, block.Errorf("endpoint", "want an https URL, or an http one on this machine")
	case u.User != nil:
		return c, block.Errorf("endpoint", "want a URL without a user: the token goes into tokenFile") // the value may be a password
	case !filepath.IsAbs(c.TokenFile):
		return c, block.Errorf("tokenFile", "%q: want an absolute path", c.TokenFile)
	case len(c.Racks) < 1 || len(c.Racks) > maxRacks:
		return c, block.Errorf("racks", "%d of them: want 1 to %d", len(c.Racks), maxRacks)
	}
	for i, rack := range c.Racks {
		if !rackName.MatchString(rack) || slices.Contains(c.Racks[:i], rack) {
			return c, block.Errorf("racks["+strconv.Itoa(i)+"]", "%q: want 1 to 32 of a-z, 0-9 and '-', each rack once", rack)
		}
	}
	return c, nil
}
