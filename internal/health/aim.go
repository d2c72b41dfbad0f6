package health

import (
	"errors"
	"net"
	"net/url"

	"golang.org/x/net/idna"
)

var errAim = errors.New("not an http or https URL with a host")

// aim is a probe URL, taken apart.
type aim struct {
	https bool
	// host is the bare name or address, in ASCII.
	host string
	// authority is host:port, the port always given.
	authority string
	// hostHeader repeats the URL's own authority.
	hostHeader string
	// path is what an origin is asked for, absolute what a proxy is.
	path     string
	absolute string
}

func parseAim(raw string) (aim, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return aim{}, errAim
	}
	host, port := u.Hostname(), u.Port()
	if host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return aim{}, errAim
	}
	if host, err = idna.ToASCII(host); err != nil {
		return aim{}, errAim
	}
	a := aim{https: u.Scheme == "https", host: host, path: u.RequestURI()}
	defaultPort := "80"
	if a.https {
		defaultPort = "443"
	}
	if port == "" {
		a.authority = net.JoinHostPort(host, defaultPort)
		// Brackets, but no port: cut it off again.
		a.hostHeader = a.authority[:len(a.authority)-len(defaultPort)-1]
	} else {
		a.authority = net.JoinHostPort(host, port)
		a.hostHeader = a.authority
	}
	a.absolute = u.Scheme + "://" + a.hostHeader + a.path
	return a, nil
}
