package discovery

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// beyondSchema are requests that the API refuses for reasons that JSON Schema cannot give, in the words of the contract's
// description or of its operations.
var beyondSchema = map[string]string{
	"ttl/ttl 3601": "the bound is configured, the contract knows the highest one",
	"ttl/ttl 60.0": "60.0 is an integer in JSON Schema", "ttl/ttl 6e1": "so is 6e1",
	"body/duplicate member": "a member repeats", "body/duplicate by escape": "a member repeats", "body/duplicate in the selector": "a member repeats",
	"body/Content-Length too large":              "what was sent is fine, as far as it goes",
	"target/target \"xn--zzzzzzzzzz99.example\"": "no valid A-label",
	"target/target \"2001:db8:0::1\"":            "not in the form of RFC 5952",
	"route/renewing out of bounds":               "the bound is configured, the contract knows the highest one",
	"body/idempotency key with another body":     "depends on what was sent before",
	"body/waiting for what nothing matches":      "depends on the fleet",
	"selector/unknown attribute":                 "depends on the fleet",
	"selector/empty value":                       "depends on the fleet",
	"selector/another namespace":                 "depends on the fleet",
	"route/encoded slash in an ID":               "depends on the leases",
	"route/unknown lease":                        "depends on the leases",
	"route/bare question mark":                   "depends on the leases",
	"route/renewing an unknown lease":            "depends on the leases",
	"route/reporting on an unknown lease":        "depends on the leases",
	"route/unknown proxy":                        "depends on the fleet",
	"route/cooldowns of an unknown proxy":        "depends on the fleet",
}

// What the API accepts follows the contract, and what it refuses departs from it, beyondSchema apart.
func TestRequestsFollowTheContract(t *testing.T) {
	c := mustContract(t)
	groups := map[string][]exchangeCase{
		"ttl": ttlCases(), "body": bodyCases(), "selector": selectorCases(), "target": targetCases(), "route": routeCases(),
	}
	met, fine, refused := map[string]bool{}, 0, 0
	for group, cases := range groups {
		for _, tc := range cases {
			name := group + "/" + tc.reason
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(tc.send)))
			if err != nil || tc.code == "-" || tc.status == http.StatusRequestEntityTooLarge {
				continue // no HTTP, or an answer about something else than what the request says
			}
			body, _ := io.ReadAll(r.Body) // as far as it goes
			err = c.checkRequest(r, body)
			_, beyond := beyondSchema[name]
			met[name] = true
			switch want := tc.status < 300 || beyond; {
			case want && err != nil:
				t.Errorf("%s: the API answers %d, the contract refuses it: %v", name, tc.status, err)
			case !want && err == nil:
				t.Errorf("%s: the API answers %d, the contract does not refuse it", name, tc.status)
			case want:
				fine++
			default:
				refused++
			}
		}
	}
	for name := range beyondSchema {
		if !met[name] {
			t.Errorf("there is no case %s", name)
		}
	}
	if fine < 40 || refused < 100 {
		t.Errorf("only %d requests were fine and %d refused", fine, refused)
	}
}
