package gcp

import (
	"net/netip"
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
	if u.Scheme == "http" && !onThisHost(u.Hostname()) {
		return block.Errorf("endpoint", "%q: only an endpoint on this host may do without TLS", endpoint)
	}
	return nil
}

func onThisHost(name string) bool {
	a, err := netip.ParseAddr(name) // 127.example.com is a name like any other
	return name == "localhost" || err == nil && a.IsLoopback()
}

// baseURL is an endpoint as the SDK wants it: paths are appended to what ends in a slash.
func baseURL(endpoint string) string {
	u, err := url.Parse(endpoint)
	if endpoint == "" || err != nil {
		return endpoint
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/compute/v1/"
	}
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/")+"/", ""
	return u.String()
}
