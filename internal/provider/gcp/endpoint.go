package gcp

import (
	"net/url"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// checkEndpoint refuses what is no base URL, and plain HTTP to other hosts: tokens would go over the wire.
func checkEndpoint(block provider.Block, endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		// The text of a URL that does not parse may hold a password.
		return block.Errorf("endpoint", "want a base URL such as https://compute.example.com/compute/v1/, without user, query and fragment")
	}
	if u.Scheme == "http" && !strings.HasPrefix(u.Hostname(), "127.") && u.Hostname() != "localhost" && u.Hostname() != "::1" {
		return block.Errorf("endpoint", "%q: only an endpoint on this host may do without TLS", endpoint)
	}
	return nil
}
