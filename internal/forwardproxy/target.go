package forwardproxy

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

const maxNameBytes = 254 // 253 and a trailing dot

// Texts for the client; none of them repeats what it sent.
var (
	errConnectTarget  = errors.New("CONNECT needs host:port with a port from 1 to 65535")
	errConnectContent = errors.New("CONNECT takes no content")
	errNotAbsolute    = errors.New("this is a forward proxy: send an absolute http:// URL or use CONNECT")
	errScheme         = errors.New("only http URLs are forwarded: use CONNECT for https")
	errUserinfo       = errors.New("credentials in the URL are refused")
	errFragment       = errors.New("a fragment in the URL is refused")
	errHostPort       = errors.New("the URL needs a valid host and a port from 1 to 65535")
)

// connectTarget returns the canonical host:port a CONNECT asks for. It reads the
// request line itself: net/url would accept and drop a path or userinfo.
func connectTarget(r *http.Request) (string, error) {
	address, ok := canonicalAddress(r.RequestURI, "")
	if !ok {
		return "", errConnectTarget
	}
	return address, nil
}

// forwardTarget returns the canonical host:port of a request in absolute form.
func forwardTarget(r *http.Request) (string, error) {
	u := r.URL
	switch {
	case strings.HasPrefix(r.RequestURI, "/"), r.RequestURI == "*", u.Scheme == "":
		return "", errNotAbsolute
	case u.Scheme != "http":
		return "", errScheme
	case u.User != nil:
		return "", errUserinfo
	case strings.Contains(r.RequestURI, "#"):
		return "", errFragment
	}
	address, ok := canonicalAddress(u.Host, "80")
	if !ok {
		return "", errHostPort
	}
	return address, nil
}

// canonicalAddress splits and checks host[:port]. An absent or empty port means
// the default; without a default it is an error.
func canonicalAddress(authority, defaultPort string) (string, bool) {
	var host, rest string
	bracketed := strings.HasPrefix(authority, "[")
	if bracketed {
		inner, after, found := strings.Cut(authority[1:], "]")
		if !found {
			return "", false
		}
		host, rest = inner, after
	} else if i := strings.IndexByte(authority, ':'); i >= 0 {
		host, rest = authority[:i], authority[i:]
	} else {
		host = authority
	}
	port := strings.TrimPrefix(rest, ":")
	if rest != "" && port == rest {
		return "", false
	}
	if port == "" {
		port = defaultPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || !validHost(host, bracketed) {
		return "", false
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), true
}

// validHost accepts IPv6 in brackets, without a zone, and otherwise names and
// IPv4 out of the characters that real names use. Spellings such as 127.1 are
// names here: what they resolve to is judged when it is dialled.
func validHost(host string, bracketed bool) bool {
	if bracketed {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is6() && addr.Zone() == ""
	}
	if host == "" || len(host) > maxNameBytes {
		return false
	}
	for i := range len(host) {
		if !isNameByte(host[i]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
}

// rawPath keeps the path byte for byte where net/url would decode and encode it
// anew (a path with an escaped slash and a character that needs escaping), and
// asks "OPTIONS *" of the destination when the URL has no path (RFC 9112
// §3.2.4). "" leaves it to net/url.
func rawPath(r *http.Request) string {
	_, rest, _ := strings.Cut(r.RequestURI, "://")
	slash := strings.IndexAny(rest, "/?")
	if slash < 0 {
		if r.Method == http.MethodOptions {
			return "*"
		}
		return ""
	}
	path, _, _ := strings.Cut(rest[slash:], "?")
	// Opaque that begins with two slashes means an authority to net/url.
	if strings.HasPrefix(path, "//") {
		return ""
	}
	return path
}

// lastHop applies Max-Forwards to OPTIONS (RFC 9110 §7.6.2): it counts one hop
// and reports whether the proxy is where the request ends.
func lastHop(r *http.Request) bool {
	if r.Method != http.MethodOptions {
		return false
	}
	n, err := strconv.ParseUint(r.Header.Get("Max-Forwards"), 10, 32)
	if err != nil {
		return false
	}
	if n == 0 {
		return true
	}
	r.Header.Set("Max-Forwards", strconv.FormatUint(n-1, 10))
	return false
}
