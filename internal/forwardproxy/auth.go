package forwardproxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

const challenge = `Basic realm="egress-proxy"`

// EqualCredentials compares two pairs in a time that depends on neither's
// content: hashes have one length, and both are always compared.
func EqualCredentials(gotUsername, gotPassword, wantUsername, wantPassword string) bool {
	return equal(gotUsername, wantUsername)&equal(gotPassword, wantPassword) == 1
}

func equal(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// StaticCredentials authorizes exactly one pair.
func StaticCredentials(username, password string) AuthorizeFunc {
	return func(gotUsername, gotPassword string, ok bool) bool {
		return EqualCredentials(gotUsername, gotPassword, username, password) && ok
	}
}

func (s *Server) authorized(r *http.Request) bool {
	if s.cfg.Authorize == nil {
		return true
	}
	return s.cfg.Authorize(parseProxyAuthorization(r.Header["Proxy-Authorization"]))
}

// parseProxyAuthorization reads RFC 7617 Basic credentials. Anything but exactly
// one well-formed field is no credentials: of two fields, another hop could
// believe the other one.
func parseProxyAuthorization(fields []string) (username, password string, ok bool) {
	if len(fields) != 1 {
		return "", "", false
	}
	scheme, token, found := strings.Cut(fields[0], " ")
	if !found || !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	// One or more spaces may stand between the two. Strict refuses a second
	// encoding of the same bytes.
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.Trim(token, " "))
	if err != nil {
		return "", "", false
	}
	username, password, found = strings.Cut(string(raw), ":")
	if !found || strings.ContainsFunc(string(raw), isControl) {
		return "", "", false
	}
	return username, password, true
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
