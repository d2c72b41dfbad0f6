package discovery

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/lease"
)

// collector sends requests and notes which of the contract's answers came back.
type collector struct {
	t    *testing.T
	c    *apiContract
	seen map[string]bool
}

// get sends a request as it is and returns the answer, which f.raw has held against the contract.
func (col *collector) get(f *fixture, text string) answer {
	col.t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		col.t.Fatal(err)
	}
	a := f.raw(col.t, []byte(text))
	o, _ := col.c.find(r.Method, r.URL)
	code := ""
	if a.StatusCode >= 400 {
		code = a.code(col.t)
	}
	col.seen[answerName(o, a.StatusCode, code)] = true
	return a
}

// call writes a request with a token and a body.
func call(name, body string, headers ...string) string {
	method, path, _ := strings.Cut(name, " ")
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\n%s%sContent-Length: %d\r\n\r\n%s", method, path, bearer, lines(headers), len(body), body)
}

// sample is a valid request of each operation.
var sample = map[string][2]string{
	"GET /healthz":                       {"GET /healthz", ""},
	"GET /openapi.json":                  {"GET /openapi.json", ""},
	"GET /v1/proxies":                    {"GET /v1/proxies", ""},
	"GET /v1/proxies/{namespace}/{name}": {"GET /v1/proxies/ns/a", ""},
	"POST /v1/leases":                    {"POST /v1/leases", `{}`},
	"GET /v1/leases/{id}":                {"GET /v1/leases/x", ""},
	"DELETE /v1/leases/{id}":             {"DELETE /v1/leases/x", ""},
	"POST /v1/leases/{id}/renew":         {"POST /v1/leases/x/renew", `{}`},
	"POST /v1/leases/{id}/report":        {"POST /v1/leases/x/report", `{"result":"ok"}`},
	"DELETE /v1/cooldowns":               {"DELETE /v1/cooldowns?proxy=ns/a", ""},
	"other methods":                      {"PATCH /v1/leases", ""},
	"other paths":                        {"GET /v1/nothing", ""},
}

// The contract promises no answer that the API does not give: each of them is provoked here, and each answer is held
// against the contract on its way.
func TestEveryAnswerOfTheContractIsGiven(t *testing.T) {
	col := &collector{t, mustContract(t), map[string]bool{}}
	f := newFixture(t)
	f.put("a")
	standby := newFixture(t, func(o *Options) { o.Leading = func() bool { return false } })
	broken := newFixture(t, func(o *Options) { o.Leading = func() bool { panic("as a test") } })
	for _, s := range sample {
		plain := call(s[0], s[1])
		col.get(f, plain)
		col.get(f, strings.Replace(plain, bearer, "", 1))
		col.get(f, call(s[0], sized(65537)))
		col.get(standby, plain)
		col.get(broken, plain)
		if strings.HasPrefix(s[0], "POST") {
			col.get(f, call(s[0], s[1], "Content-Encoding: gzip"))
		}
		// A body that ends too early is wrong for everybody who reads it.
		if s[0] != "GET /healthz" && s[0] != "GET /v1/nothing" && !strings.HasPrefix(s[0], "PATCH") {
			col.get(f, strings.Replace(plain, "Content-Length: ", "Content-Length: 1", 1))
		}
	}
	col.lives(f)
	col.ends(f)
	col.overload()
	col.narrowed()

	var missing []string
	for _, want := range col.c.everyAnswer() {
		if !col.seen[want] {
			missing = append(missing, want)
		}
	}
	if len(missing) > 0 {
		t.Errorf("answers of the contract that the API never gave:\n%s", strings.Join(missing, "\n"))
	}
	if names := slices.Sorted(func(yield func(string) bool) {
		for name := range col.c.operations {
			if _, ok := sample[name]; !ok && !yield(name) {
				return
			}
		}
	}); len(names) > 0 {
		t.Errorf("operations without a sample: %v", names)
	}
}

// lives provokes what the operations on a live lease answer, and their own refusals.
func (col *collector) lives(f *fixture) {
	l := f.acquire(col.t, `{}`)
	col.get(f, call("GET /v1/leases/"+l.LeaseID, ""))
	col.get(f, call("POST /v1/leases/"+l.LeaseID+"/renew", `{}`))
	col.get(f, call("POST /v1/leases/"+l.LeaseID+"/renew", `{"ttlSeconds":0}`))
	col.get(f, call("POST /v1/leases/"+l.LeaseID+"/report", `{"result":"ok"}`))
	col.get(f, call("POST /v1/leases/"+l.LeaseID+"/report", `{}`))
	col.get(f, call("POST /v1/leases", `{"ttlSeconds":0}`))
	col.get(f, call("POST /v1/leases", `{"namespace":"other"}`))
	col.get(f, call("POST /v1/leases", `{}`, "Idempotency-Key: k"))
	col.get(f, call("POST /v1/leases", `{ }`, "Idempotency-Key: k"))
	col.get(f, call("GET /v1/proxies/ns/nobody", ""))
	col.get(f, call("DELETE /v1/cooldowns?proxy=ns/nobody", ""))
}

// ends provokes what the ends of a lease look like.
func (col *collector) ends(f *fixture) {
	short, long := f.acquire(col.t, `{"ttlSeconds":1}`), f.acquire(col.t, `{"ttlSeconds":3600}`)
	f.clock.Step(time.Second)
	both := func(l leaseView) {
		col.get(f, call("GET /v1/leases/"+l.LeaseID, ""))
		col.get(f, call("POST /v1/leases/"+l.LeaseID+"/renew", `{}`))
	}
	both(short)
	f.ledger.Withdraw(f.fleet.Get(types.NamespacedName{Namespace: "ns", Name: "a"}).LeaseKey())
	both(long)
	f.put("a", func(p *fleet.Proxy) { p.Attempt = 2 })
	both(long)
}

func (col *collector) overload() {
	f := newFixture(col.t, func(o *Options) {
		ledger, err := lease.New(lease.Options{Fleet: o.Fleet, Clock: o.Clock.(clockWithTicker), MaxLive: 1})
		if err != nil {
			col.t.Fatal(err)
		}
		o.Ledger = ledger
	})
	f.put("a")
	f.acquire(col.t, `{}`)
	col.get(f, call("POST /v1/leases", `{}`))
	putLong(f)
	for range maxLists {
		f.server.lists.all <- struct{}{}
	}
	col.get(f, call("GET /v1/proxies", ""))
}

// narrowed provokes what a principal is told of a lease on a proxy that it sees no longer.
func (col *collector) narrowed() {
	ring := newRing("a", "ns")
	f := newFixture(col.t, open, ring.use)
	f.put("a")
	again := call("POST /v1/leases", `{}`, "Idempotency-Key: k")
	col.get(f, again)
	ring.set("a", "elsewhere")
	col.get(f, again)
}
