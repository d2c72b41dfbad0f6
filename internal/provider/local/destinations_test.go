//go:build linux

package local_test

import (
	"net/http"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

func TestDestinationsAreRefusedUnlessAllowed(t *testing.T) {
	s := target(t)
	for name, tc := range map[string]struct {
		extra string
		want  int
	}{
		"by default":            {"", http.StatusForbidden},
		"another one allowed":   {"allowDestinations: [10.0.0.0/8]\n", http.StatusForbidden},
		"allowed":               {"allowDestinations: [127.0.0.1/32]\n", http.StatusOK},
		"its clients are named": {"allowDestinations: [127.0.0.1/32]\nallowClients: [127.0.0.0/8]\n", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(providertest.Go(t))
			w.extra = tc.extra
			p := w.provider()
			ref, inst := w.created(p, w.request())
			status, body, err := through(address(inst), s.URL, nil)
			if err != nil || status != tc.want {
				t.Errorf("a loopback target: %d %q, %v, want %d", status, body, err, tc.want)
			}
			if status, _, err := through(address(inst), "http://169.254.169.254/latest/meta-data/", nil); err != nil || status != http.StatusForbidden {
				t.Errorf("the metadata address: %d, %v, want 403", status, err)
			}
			w.deleted(p, ref)
		})
	}
}

func TestClientsAreRefusedUnlessNamed(t *testing.T) {
	w := newWorld(providertest.Go(t))
	w.extra = "allowDestinations: [127.0.0.0/8]\nallowClients: [198.51.100.0/24]\n"
	p := w.provider()
	ref, inst := w.created(p, w.request())
	status, _, err := through(address(inst), target(t).URL, nil)
	if err == nil && status < 400 {
		t.Errorf("a client from elsewhere got %d", status)
	}
	w.deleted(p, ref)
}
