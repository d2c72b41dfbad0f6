package discovery

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	maxSelector  = 32
	defaultLimit = 500
	maxLimit     = 1000
)

// parameters reads a query string in which every name is in known or begins with prefix (when that is not empty), and
// none repeats.
func parameters(raw, prefix string, known ...string) (map[string]string, *apiError) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, invalid("the query string is malformed")
	}
	allowed := map[string]bool{}
	for _, name := range known {
		allowed[name] = true
	}
	out := make(map[string]string, len(values))
	for name, v := range values {
		if !allowed[name] && (prefix == "" || !strings.HasPrefix(name, prefix)) {
			if len(known) == 0 {
				return nil, invalid("there are no query parameters here")
			}
			return nil, invalid("unknown query parameter; known here: %s", strings.Join(known, ", "))
		}
		if len(v) != 1 {
			return nil, invalid("a query parameter appears twice")
		}
		out[name] = v[0]
	}
	return out, nil
}

// listQuery is what a list is asked for.
type listQuery struct {
	namespace string
	selector  map[string]string
	healthy   *bool
	limit     int
	// after is the last proxy of the page before.
	after *types.NamespacedName
}

func parseList(raw string) (q listQuery, failure *apiError) {
	const attr = "attr."
	params, failure := parameters(raw, attr, "healthy", "namespace", "limit", "continue", "attr.<key>")
	if failure != nil {
		return q, failure
	}
	q.limit, q.selector = defaultLimit, map[string]string{}
	for name, value := range params {
		switch name {
		case "healthy":
			if value != "true" && value != "false" {
				return q, invalid("healthy must be true or false")
			}
			healthy := value == "true"
			q.healthy = &healthy
		case "namespace":
			q.namespace, failure = value, namespace("namespace", value)
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxLimit {
				return q, invalid("limit must be a whole number between 1 and %d", maxLimit)
			}
			q.limit = n
		case "continue":
			q.after, failure = parseContinue(value)
		default:
			q.selector[strings.TrimPrefix(name, attr)] = value
		}
		if failure != nil {
			return q, failure
		}
	}
	return q, selector("attr", q.selector)
}

func namespace(member, value string) *apiError {
	if len(validation.IsDNS1123Label(value)) > 0 {
		return invalid("%s must be the name of a namespace", member)
	}
	return nil
}

// selector checks keys and values against what attributes can hold: nothing else could ever match.
func selector(member string, s map[string]string) *apiError {
	if len(s) > maxSelector {
		return invalid("%s may name at most %d attributes", member, maxSelector)
	}
	for k, v := range s {
		if len(validation.IsQualifiedName(k)) > 0 {
			return invalid("a key in %s is not shaped like a label key", member)
		}
		if len(validation.IsValidLabelValue(v)) > 0 {
			return invalid("a value in %s is not shaped like a label value", member)
		}
	}
	return nil
}

// object reads namespace/name.
func object(value string) (types.NamespacedName, bool) {
	ns, name, ok := strings.Cut(value, "/")
	ok = ok && len(validation.IsDNS1123Label(ns)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
	return types.NamespacedName{Namespace: ns, Name: name}, ok
}

// continueAfter is the token for the page after key. Clients must not look into it.
func continueAfter(key types.NamespacedName) string {
	return base64.RawURLEncoding.EncodeToString([]byte(key.Namespace + "/" + key.Name))
}

func parseContinue(token string) (*types.NamespacedName, *apiError) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	key, ok := object(string(raw))
	if err != nil || !ok {
		return nil, invalid("continue must be the token of the page before")
	}
	return &key, nil
}
