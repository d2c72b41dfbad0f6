package forwardproxy

import (
	"net/http"
	"strings"
)

// endHere are the fields that never pass the proxy, in either direction: those
// about one connection (RFC 9110 §7.6.1 and what predates it) and those between
// the client and the proxy. net/http takes Transfer-Encoding and Content-Length
// out itself and frames each side anew.
var endHere = [...]string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
	"Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info",
}

// stripConnectionFields removes them, and those that Connection names, in place.
func stripConnectionFields(h http.Header) {
	for _, field := range h["Connection"] {
		for name := range strings.SplitSeq(field, ",") {
			if name = strings.Trim(name, " \t"); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range endHere {
		h.Del(name)
	}
}

// requestFields returns the fields to send on. Nothing is added that the client
// did not send.
func requestFields(in http.Header) http.Header {
	out := in.Clone()
	trailers := acceptsTrailers(in["Te"])
	stripConnectionFields(out)
	if trailers {
		// The only transfer option that reaches across hops. TE has to be named
		// in Connection by whoever sends it.
		out["Te"], out["Connection"] = []string{"trailers"}, []string{"TE"}
	}
	if _, sent := out["User-Agent"]; !sent {
		// An empty entry keeps net/http from sending its own.
		out["User-Agent"] = nil
	}
	return out
}

func acceptsTrailers(te []string) bool {
	for _, field := range te {
		for option := range strings.SplitSeq(field, ",") {
			if strings.EqualFold(strings.Trim(option, " \t"), "trailers") {
				return true
			}
		}
	}
	return false
}

// copyResponseFields fills dst, a response's own header, from the destination's.
func copyResponseFields(dst, src http.Header) {
	src = src.Clone()
	stripConnectionFields(src)
	for name, values := range src {
		dst[name] = values
	}
	// net/http adds both where they are absent; an entry without value stops it.
	for _, name := range [...]string{"Date", "Content-Type"} {
		if _, sent := dst[name]; !sent {
			dst[name] = nil
		}
	}
}

// forwardableTrailer tells which fields may follow a body: none that frames or
// routes a message, or that ends at the proxy.
func forwardableTrailer(name string) bool {
	switch name {
	case "Content-Length", "Host":
		return false
	}
	for _, hop := range endHere {
		if name == hop {
			return false
		}
	}
	return true
}

// boundToConnection recognises authentication schemes whose outcome belongs to
// the connection: reusing it for another client would hand over an identity.
func boundToConnection(h http.Header) bool {
	for _, field := range h["Authorization"] {
		scheme, _, _ := strings.Cut(field, " ")
		if strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate") {
			return true
		}
	}
	return false
}
