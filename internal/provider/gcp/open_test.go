package gcp_test

import (
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// A proxy that anybody on the internet could use is neither planned nor created.
func TestOpenProxiesAreRefused(t *testing.T) {
	const unused, missing = "cloudInit does not use ${PROXY_PASSWORD}", "spec.auth is missing"
	some := &provider.Credentials{Username: "crawler", Password: "sentinel.password", Revision: "r1"}
	for _, tc := range []struct {
		reason, extra, firewall string
		creds                   *provider.Credentials
		cloudInit               string
		refused                 string
	}{
		{"nothing restricts it", "", "", nil, "", missing},
		{"nothing, and a template", "", "", nil, "#cloud-config\n", missing},
		{"nothing, said out loud", "addressType: external\n", "firewall: {manage: false, existingSourceRanges: []}\n", nil, "", missing},
		{"credentials", "", "", some, "#cloud-config\npassword: 'sentinel.password'\n", ""},
		{"credentials that no cloud-init gets", "", "", some, "", unused},
		{"credentials of which it gets the name", "", "", some, "#cloud-config\nuser: crawler\n", unused},
		{"credentials without password", "", "", &provider.Credentials{Username: "crawler"}, "#cloud-config\nuser: crawler\n", unused},
		{"the operator's rule", "", managed, nil, "", ""},
		{"the operator's rule, and credentials not used", "", managed, some, "", ""},
		{"somebody's rule", "", restricted, nil, "", ""},
		{"somebody's rule, and credentials not used", "", restricted, some, "", ""},
		{"an internal address", "addressType: internal\n", "", nil, "", ""},
	} {
		w := newT(t, gcpemulator.Options{})
		w.extra, w.firewall = tc.extra, tc.firewall
		p := w.provider()
		req := w.request()
		req.Credentials, req.CloudInit = tc.creds, tc.cloudInit
		ref := w.ref(req, 1)
		id, planned := p.Plan(t.Context(), req)
		created := p.Create(t.Context(), req, ref)
		if tc.refused == "" {
			if planned != nil || id != ref.ID || created != nil || len(w.left()) != 2 {
				t.Errorf("%s: planned %v, created %v, left is %q", tc.reason, planned, created, w.left())
			}
			continue
		}
		for what, err := range map[string]error{"planned": planned, "created": created} {
			expect(t, tc.reason+", "+what, err, provider.ErrPermanent, provider.ReasonOpenProxyRefused,
				tc.refused, "provider "+entry, "firewall.manage", "firewall.existingSourceRanges")
			if err != nil && strings.Contains(err.Error(), "sentinel") {
				t.Errorf("%s: %v repeats the password", tc.reason, err)
			}
		}
		if calls := w.emulator.AllCalls(); len(calls) > 0 {
			t.Errorf("%s: there were calls: %v", tc.reason, calls)
		}
	}
}

// Whoever corrects a request is told what is wrong with it first, and that it would be open last.
func TestWhatIsWrongComesBeforeWhoMayUseIt(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.firewall = ""
	req := w.request()
	req.Placement.Zone = ""
	_, err := w.provider().Plan(t.Context(), req)
	expect(t, "Plan", err, provider.ErrPermanent, "", "placement.zone is missing")
}

// What runs from before goes on, and can be removed.
func TestAnOpenProxyThatIsThere(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	ref, _ := w.create(w.provider())
	w.firewall = ""
	p := w.provider()
	w.expect(t, "it", p, ref, "Running")
	must(w.t, p.Delete(t.Context(), ref))
	w.expect(t, "removed", p, ref, "not_found")
}
