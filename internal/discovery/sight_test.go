package discovery

import (
	"net/http"
	"strings"
	"testing"
)

// sighted has a proxy that its one principal sees, until the ring says otherwise.
func sighted(t *testing.T, with func(*testing.T, ...func(*Options)) *fixture) (*fixture, *ring) {
	t.Helper()
	keys := newRing("a", "ns")
	f := with(t, open, keys.use)
	f.put("a", withCap(1))
	return f, keys
}

// secretless fails when an answer holds what only the holder of a lease may know.
func (a answer) secretless(t *testing.T) answer {
	t.Helper()
	if strings.Contains(a.text, "SENTINEL") {
		t.Errorf("%d with credentials: %s", a.StatusCode, a.text)
	}
	return a
}

// A token that is narrowed takes effect on the leases that are there: what the principal does not see it is not told, but
// it can still give back what it holds.
func TestALeaseOutOfSight(t *testing.T) {
	f, keys := sighted(t, newFixture)
	a := f.want(t, http.StatusCreated, http.MethodPost, "/v1/leases", `{}`)
	var l, again leaseView
	a.into(t, &l)
	path := "/v1/leases/" + l.LeaseID
	keys.set("a", "elsewhere")
	for _, c := range [][3]string{{http.MethodGet, path, ""}, {http.MethodPost, path + "/renew", `{"ttlSeconds":3600}`}} {
		if got := f.want(t, http.StatusGone, c[0], c[1], c[2]).secretless(t).code(t); got != "proxy_gone" {
			t.Errorf("%s %s: %s", c[0], c[1], got)
		}
	}
	keys.set("a", "ns")
	f.want(t, http.StatusOK, http.MethodGet, path, "").into(t, &again)
	if again.ExpiresAt != l.ExpiresAt {
		t.Errorf("renewed out of sight: %s, was %s", again.ExpiresAt, l.ExpiresAt)
	}
	keys.set("a", "elsewhere")
	f.want(t, http.StatusNoContent, http.MethodPost, path+"/report", `{"result":"banned","target":"shop.example"}`)
	f.want(t, http.StatusNoContent, http.MethodDelete, path, "")
	if n := f.ledger.Live(); n != 0 {
		t.Errorf("%d live leases", n)
	}
	keys.set("a", "ns")
	f.want(t, http.StatusConflict, http.MethodPost, "/v1/leases", `{"target":"shop.example"}`)
}

// Nor does a key bring a lease back that is out of sight; it stays what it is.
func TestAKeyBringsBackNothingOutOfSight(t *testing.T) {
	for _, body := range []string{`{}`, `{"waitSeconds":30}`} {
		f, keys := sighted(t, newWaitFixture)
		ask := call("POST /v1/leases", body, "Idempotency-Key: k")
		if a := f.raw(t, []byte(ask)); a.StatusCode != http.StatusCreated {
			t.Fatal(a.StatusCode)
		}
		keys.set("a", "elsewhere")
		if a := f.raw(t, []byte(ask)).secretless(t); a.StatusCode != http.StatusGone || a.code(t) != "proxy_gone" {
			t.Errorf("%s: %d %s", body, a.StatusCode, a.text)
		}
		keys.set("a", "ns")
		if a := f.raw(t, []byte(ask)); a.StatusCode != http.StatusCreated || f.ledger.Live() != 1 {
			t.Errorf("%s: %d with %d live leases", body, a.StatusCode, f.ledger.Live())
		}
	}
}

// While a request waits its token may change.
func TestATokenThatChangesDuringTheWait(t *testing.T) {
	for name, tc := range map[string]struct {
		principal, ns string
		status        int
		code, outcome string
	}{
		"gone":                {"", "", http.StatusUnauthorized, "unauthorized", OutcomeInvalid},
		"narrowed":            {"a", "elsewhere", http.StatusConflict, "no_match", OutcomeNoMatch},
		"another principal's": {"b", "ns", http.StatusConflict, "no_match", OutcomeNoMatch},
	} {
		t.Run(name, func(t *testing.T) {
			f, keys := sighted(t, newWaitFixture)
			held := f.acquire(t, `{}`)
			conn, r := dial(t, f)
			write(t, conn, post(`{"waitSeconds":30}`))
			await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
			f.metrics.take()
			keys.set(tc.principal, tc.ns)
			if err := f.ledger.Release(held.LeaseID, "a"); err != nil {
				t.Fatal(err)
			}
			a := readAnswer(t, r)
			if a.secretless(t); a.StatusCode != tc.status || !strings.Contains(a.text, `"error":"`+tc.code+`"`) {
				t.Errorf("%d %s, want %d %s", a.StatusCode, a.text, tc.status, tc.code)
			}
			if tc.code == "no_match" && (!strings.Contains(a.text, `"considered":0`) || a.Header.Get("Retry-After") != "") {
				t.Errorf("it tells of what is out of sight: %s", a.text)
			}
			await(t, "the lease is given back", func() bool { return f.ledger.Live() == 0 })
			if got := f.metrics.take(); got != tc.outcome {
				t.Errorf("outcome %s, want %s", got, tc.outcome)
			}
		})
	}
}

// A token that changes to the same effect, as when the file was written anew, ends nothing.
func TestATokenThatStaysDuringTheWait(t *testing.T) {
	f, keys := sighted(t, newWaitFixture)
	held := f.acquire(t, `{}`)
	conn, r := dial(t, f)
	write(t, conn, post(`{"waitSeconds":30}`))
	await(t, "somebody waits", func() bool { return f.ledger.Waiting() == 1 })
	keys.set("a", "ns")
	if err := f.ledger.Release(held.LeaseID, "a"); err != nil {
		t.Fatal(err)
	}
	if got := readStatus(t, r); got != http.StatusCreated || f.ledger.Live() != 1 {
		t.Errorf("%d with %d live leases", got, f.ledger.Live())
	}
}
