package discovery

import (
	"net/http"
	"testing"
)

// Idle connections of clients without a token would take the places of those with one.
func TestARefusedClientKeepsNoConnection(t *testing.T) {
	f := newFixture(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+"/v1/proxies", nil)
	if err != nil {
		t.Fatal(err)
	}
	if a := f.send(t, req); a.StatusCode != http.StatusUnauthorized || !a.Close {
		t.Fatalf("%s, the connection is closed: %t", a.Status, a.Close)
	}
	if a := f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", ""); a.Close {
		t.Fatal("a client with the token loses its connection")
	}
}
