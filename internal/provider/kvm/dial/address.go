package dial

import (
	"errors"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

const defaultPort = 22

var (
	errAddress = errors.New(`not of the form "host", "host:port" or "[v6]:port"`)
	hostName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}$`)
	zoneName   = regexp.MustCompile(`^[A-Za-z0-9_.-]*$`)
)

// endpoint is where an SSH server listens.
type endpoint struct {
	// host is a name as the configuration spells it, or an IP address in its canonical form, which is how known_hosts
	// files have it.
	host string
	port uint16
}

// String returns "host:port", with brackets around an IPv6 address.
func (e endpoint) String() string { return net.JoinHostPort(e.host, strconv.Itoa(int(e.port))) }

// Host returns the host of a Target.Address: a name as it is spelled, or an IP address in its canonical form. The error says
// what is wanted, not what was given.
func Host(address string) (string, error) {
	e, err := parseAddress(address)
	return e.host, err
}

// parseAddress reads Target.Address. An IPv6 address without a port may do without brackets.
func parseAddress(s string) (endpoint, error) {
	if host, err := parseHost(s); err == nil {
		return endpoint{host, defaultPort}, nil
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		host, err := parseHost(strings.TrimSuffix(inner, "]"))
		if err != nil || !strings.Contains(host, ":") {
			return endpoint{}, errAddress
		}
		return endpoint{host, defaultPort}, nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return endpoint{}, errAddress
	}
	host, err = parseHost(host)
	if err != nil {
		return endpoint{}, err
	}
	// ParseUint takes no sign, and no underscores in base 10.
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return endpoint{}, errAddress
	}
	return endpoint{host, uint16(n)}, nil
}

// parseHost takes a name or an IP address.
func parseHost(s string) (string, error) {
	if ip, err := netip.ParseAddr(s); err == nil {
		if !zoneName.MatchString(ip.Zone()) {
			return "", errAddress
		}
		return ip.String(), nil
	}
	if !hostName.MatchString(s) {
		return "", errAddress
	}
	return s, nil
}
