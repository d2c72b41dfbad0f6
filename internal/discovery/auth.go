package discovery

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Principal is on whose behalf a request is made. Leases belong to it.
type Principal struct {
	// Name is unique among the principals.
	Name string
}

// DefaultPrincipal is who holds the one token, and everybody while the API is open.
const DefaultPrincipal = "default"

// authenticator knows the token by its hash only: comparing hashes takes the same time whatever a client sends.
type authenticator struct {
	set  bool
	hash [sha256.Size]byte
}

func newAuthenticator(token string) authenticator {
	return authenticator{set: token != "", hash: sha256.Sum256([]byte(token))}
}

func (a authenticator) required() bool { return a.set }

// principal says who sends a request with these Authorization headers. presented tells whether it carried credentials
// at all.
func (a authenticator) principal(authorization []string) (p Principal, presented, ok bool) {
	if !a.set {
		return Principal{Name: DefaultPrincipal}, false, true
	}
	if len(authorization) == 0 {
		return Principal{}, false, false
	}
	// Two headers are refused rather than one chosen: what stands in front may have chosen the other.
	if len(authorization) > 1 {
		return Principal{}, true, false
	}
	scheme, token, _ := strings.Cut(authorization[0], " ")
	hash := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
	if subtle.ConstantTimeCompare(hash[:], a.hash[:]) != 1 || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, true, false
	}
	return Principal{Name: DefaultPrincipal}, true, true
}

// unauthorized answers 401 in the words of RFC 6750, section 3: no error attribute when nothing was presented.
func (x *exchange) unauthorized(presented bool) {
	challenge, message := `Bearer realm="egress-proxies"`, "send the token as Authorization: Bearer"
	if presented {
		challenge, message = challenge+`, error="invalid_token"`, "the token is not valid"
	}
	x.Header().Set("WWW-Authenticate", challenge)
	// Whoever shows no token keeps no connection: idle ones would take the places of those who do.
	x.Header().Set("Connection", "close")
	x.fail(&apiError{http.StatusUnauthorized, "unauthorized", message})
}
