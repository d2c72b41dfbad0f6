package discovery

import (
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// Principal is on whose behalf a request is made. Leases, reports and idempotency keys belong to it.
type Principal struct {
	// Name is unique among the principals.
	Name string
	// Namespaces are those whose proxies the principal sees; empty for all.
	Namespaces []string
	// Selector holds attributes that a proxy must have for the principal to see it.
	Selector map[string]string
}

// DefaultPrincipal is who holds the one token, and everybody while the API is open. It sees everything.
const DefaultPrincipal = "default"

// sees reports whether p exists as far as the principal is concerned.
func (pr *Principal) sees(p *fleet.Proxy) bool {
	return (len(pr.Namespaces) == 0 || slices.Contains(pr.Namespaces, p.Key.Namespace)) && p.Matches(pr.Selector)
}

// admits narrows q down to what the principal sees; it is false when nothing can be left.
func (pr *Principal) admits(q *lease.Query) bool {
	switch {
	case len(pr.Namespaces) == 0:
	case len(q.Namespaces) == 0:
		q.Namespaces = pr.Namespaces
	default:
		for _, ns := range q.Namespaces {
			if !slices.Contains(pr.Namespaces, ns) {
				return false
			}
		}
	}
	if len(pr.Selector) == 0 {
		return true
	}
	merged := maps.Clone(pr.Selector)
	for k, v := range q.Selector {
		if had, ok := merged[k]; ok && had != v {
			return false
		}
		merged[k] = v
	}
	q.Selector = merged
	return true
}

// Tokens finds principals by their token. It is safe for concurrent use and does not block.
type Tokens interface {
	// Principal returns whose token has this SHA-256 hash.
	Principal(hash [sha256.Size]byte) (Principal, bool)
}

// authenticator knows the token by its hash only: comparing hashes takes the same time whatever a client sends.
type authenticator struct {
	set    bool
	hash   [sha256.Size]byte
	tokens Tokens
}

func newAuthenticator(token string, tokens Tokens) authenticator {
	return authenticator{set: token != "", hash: sha256.Sum256([]byte(token)), tokens: tokens}
}

func (a *authenticator) required() bool { return a.set || a.tokens != nil }

// principal says who sends a request with these Authorization headers. presented tells whether it carried credentials
// at all.
func (a *authenticator) principal(authorization []string) (p Principal, presented, ok bool) {
	if !a.required() {
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
	if !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, true, false
	}
	hash := sha256.Sum256([]byte(strings.TrimLeft(token, " ")))
	if a.set && subtle.ConstantTimeCompare(hash[:], a.hash[:]) == 1 {
		return Principal{Name: DefaultPrincipal}, true, true
	}
	if a.tokens != nil {
		p, ok = a.tokens.Principal(hash)
	}
	return p, true, ok
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
