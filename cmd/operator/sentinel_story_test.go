package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// fleetOf are the Proxies of the story by entry, those that come up first.
var fleetOf = []struct{ name, entry string }{
	{"one", "cloud"}, {"orphan", "cloud"}, {"spare-1", "spare"}, {"spare-2", "spare"}, {"spare-3", "spare"},
	{"quoted", "quoting"}, {"refused", "denied"}, {"pod", "pods"}, {"guest-a", "hypervisors"}, {"guest-b", "hypervisors"}, {"guest-c", "hypervisors"},
}

// patience is for machines that do much else.
const patience = 2 * time.Minute

// TestNoSecretIsShown takes an operator through a whole life at the highest level of its log. What it is to keep to itself is in
// no line, Event, condition, metric, span, list and error, and each line is what a line has to be.
func TestNoSecretIsShown(t *testing.T) {
	x := newPlanted(t)
	entries := x.entries(x.proxies(89, 8))
	x.publish(entries)
	leader := x.run(true)
	leader.eventually(t, "/v1/proxies", http.StatusOK)
	standby := x.run(false)
	standby.eventually(t, "/v1/proxies", http.StatusServiceUnavailable)

	x.born()
	x.lent(leader)
	x.misread(leader, entries)
	x.ill()
	// Orphans: one among the living, and all that one entry has.
	for _, name := range []string{"orphan", "spare-1", "spare-2", "spare-3"} {
		x.annotate(name, v1alpha1.AnnotationSkipCleanup, v1alpha1.LabelValueTrue)
		x.remove(name)
	}
	x.annotate("one", v1alpha1.AnnotationReplace, x.s.at("a replace annotation"))
	untilWithin(t, patience, "the replacement", func() bool { p := x.get("one"); return x.ready("one") && p.Status.Instance.Attempt == 2 })
	untilWithin(t, patience, "the orphan found", func() bool { return leader.says("WARNING: deleting an orphan") })
	untilWithin(t, patience, "the breaker", func() bool {
		return leader.says("WARNING: the orphan breaker holds") && x.witness.has("OrphanBreakerOpen")
	})

	numbers := scrape(t, x.metrics)
	if !strings.Contains(numbers, "proxy_operator_") {
		t.Error("there are no metrics")
	}
	x.s.absent(t, "the metrics", numbers)
	for _, p := range fleetOf {
		if p.name != "one" {
			x.remove(p.name)
		}
	}
	if err := leader.stop(t); err != nil {
		t.Error(err)
	}
	standby.eventually(t, "/v1/proxies", http.StatusOK)
	x.remove("one")
	x.remove("ext")
	untilWithin(t, patience, "the end", func() bool { return x.get("one").Name == "" && x.get("ext").Name == "" })
	if err := standby.stop(t); err != nil {
		t.Error(err)
	}
	x.judge(leader, standby)
}

// says reports whether a message that begins so is in the log.
func (p *operatorProcess) says(message string) bool {
	return strings.Contains(p.log.String(), `"msg":"`+message)
}

// born waits until the fleet is what it is going to be: up, or refused in the words of the request.
func (x *planted) born() {
	t := x.cloudOnHost.t
	for _, p := range fleetOf {
		x.proxyOf(p.name, p.entry, func(o *v1alpha1.Proxy) {
			switch p.entry {
			case "hypervisors":
				o.Spec.Placement = &v1alpha1.Placement{Zone: "hv-" + p.name[len(p.name)-1:], MachineType: "small", Image: "debian"}
			case "pods":
				o.Spec.Placement, o.Spec.CloudInit = nil, nil
			}
		})
	}
	external := startForwardProxy(t)
	x.proxyOf("ext", "", func(o *v1alpha1.Proxy) {
		o.Spec = v1alpha1.ProxySpec{Mode: v1alpha1.ModeExternal, Endpoint: external, Auth: o.Spec.Auth, HealthCheck: o.Spec.HealthCheck}
	})
	// A secret in an endpoint does not get as far as an operator.
	bad := &v1alpha1.Proxy{ObjectMeta: metav1.ObjectMeta{Namespace: x.ns, Name: "bad"}, Spec: v1alpha1.ProxySpec{
		Mode: v1alpha1.ModeExternal, Endpoint: &v1alpha1.Endpoint{Host: "user:" + x.s.at("an endpoint") + "@192.0.2.1", Port: 3128},
	}}
	if err := x.c.Create(t.Context(), bad); err == nil {
		t.Error("an endpoint with a password is accepted")
	}
	for _, name := range []string{"one", "orphan", "spare-1", "spare-2", "spare-3", "ext"} {
		untilWithin(t, patience, name+" Ready", func() bool { return x.ready(name) })
	}
	for name, reason := range map[string]string{
		"quoted": v1alpha1.ReasonPermanentError, "refused": v1alpha1.ReasonProviderUnavailable, "pod": v1alpha1.ReasonProviderUnavailable,
	} {
		untilWithin(t, patience, name+" with "+reason, func() bool { return strings.HasPrefix(x.provisioned(name), "False "+reason) })
	}
	for _, name := range []string{"guest-a", "guest-b", "guest-c"} {
		untilWithin(t, patience, name+" refused", func() bool { return x.get(name).Status.Phase != "" && len(x.provisioned(name)) > 20 })
	}
	untilWithin(t, patience, "the image refused", func() bool { return strings.Contains(x.provisioned("guest-a"), "403") })
}

// lent uses the API, well and badly. A lease is the one answer that has credentials in it, for whoever has a token.
func (x *planted) lent(p *operatorProcess) {
	t := x.cloudOnHost.t
	bearer := "Bearer " + x.s.at("a token of the file")
	status, lease := x.ask(p, http.MethodPost, "/v1/leases", bearer, x.s.at("an Idempotency-Key"), `{"target":"shop.example"}`)
	if status != http.StatusCreated || !strings.Contains(lease, x.s.at("a user")) || !strings.Contains(lease, x.s.at("a password")) {
		t.Errorf("a lease: %d %s", status, lease)
	}
	x.s.absent(t, "a lease", lease, "a user", "a password")
	_, after, _ := strings.Cut(lease, `"leaseID":"`)
	id, _, _ := strings.Cut(after, `"`)
	x.s.is("a lease's ID", id)
	for _, r := range []struct {
		method, path, token, key, body string
		want                           int
	}{
		{http.MethodGet, "/v1/proxies", bearer, "", "", 200},
		{http.MethodGet, "/v1/proxies?healthy=true", "Bearer t0ken-of-the-test", "", "", 200},
		{http.MethodGet, "/v1/proxies/" + x.ns + "/one", bearer, "", "", 200},
		{http.MethodGet, "/v1/proxies?attr.k=" + x.s.at("a query"), bearer, "", "", 200},
		{http.MethodGet, "/v1/proxies?" + x.s.at("a parameter") + "=1", bearer, "", "", 400},
		{http.MethodGet, "/" + x.s.at("a path"), bearer, "", "", 404},
		{http.MethodGet, "/v1/leases/" + x.s.at("an unknown lease"), bearer, "", "", 404},
		{x.s.at("a method"), "/v1/proxies", bearer, "", "", 405},
		{http.MethodGet, "/v1/proxies", "Bearer " + x.s.at("a wrong token"), "", "", 401},
		{http.MethodGet, "/v1/proxies", "Basic " + x.s.at("a wrong scheme"), "", "", 401},
		{http.MethodPost, "/v1/leases", bearer, "", `{"selector":{"k":"` + x.s.at("a selector") + `"}}`, 409},
		{http.MethodPost, "/v1/leases", bearer, "", `{"selector":{"` + x.s.at("a selector's key") + `!":"v"}}`, 400},
		{http.MethodPost, "/v1/leases", bearer, "", `{"target":"https://u:` + x.s.at("a target") + `@shop.example/"}`, 400},
		{http.MethodPost, "/v1/leases", bearer, "", `{"` + x.s.at("a member") + `":1}`, 400},
		{http.MethodPost, "/v1/leases", bearer, "", `{"ttlSeconds":"` + x.s.at("a value of another type") + `"}`, 400},
		{http.MethodPost, "/v1/leases", bearer, "", x.s.at("a body"), 400},
		{http.MethodPost, "/v1/leases", bearer, x.s.at("an Idempotency-Key"), `{}`, 422},
		{http.MethodPost, "/v1/leases/" + id + "/report", bearer, "", `{"result":"` + x.s.at("a result") + `"}`, 400},
		{http.MethodPost, "/v1/leases/" + id + "/report", bearer, "", `{"result":"banned"}`, 204},
		{http.MethodDelete, "/v1/leases/" + id, bearer, "", "", 204},
	} {
		status, answer := x.ask(p, r.method, r.path, r.token, r.key, r.body)
		if status != r.want {
			t.Errorf("%s %s %s: %d, want %d: %s", r.method, r.path, r.body, status, r.want, answer)
		}
		// Who is let in may be told what is wrong in their own words. Headers are nobody's business.
		var own []string
		if r.want != http.StatusUnauthorized {
			own = x.s.in(r.method + r.path + r.body)
		}
		x.s.absent(t, "the answer to "+r.method+" "+r.path+" "+r.body, answer, own...)
	}
}

// misread has the operator read files in which secrets are where they do not belong.
func (x *planted) misread(p *operatorProcess, entries string) {
	t := x.cloudOnHost.t
	gcp := "- name: " + x.named("worse") + "\n  type: gcp\n  gcp:\n    project: project-a\n    firewall: {existingSourceRanges: [10.0.0.0/8]}\n"
	for i, text := range []string{
		entries + gcp + "    passwrd: " + x.s.at("an unknown key") + "\n",
		entries + gcp + "    diskSizeGb: " + x.s.at("a number") + "\n",
		entries + gcp + "    anonymous: " + x.s.at("a bool") + "\n",
		entries + gcp + "    endpoint: https://u:" + x.s.at("an endpoint's URL") + "@compute.test/\n",
		entries + gcp + "    serviceAccount: " + x.s.at("an object") + "\n",
		entries + gcp + "    labels: {a: [" + x.s.at("a list") + "]}\n",
		entries + "- name: " + x.named("worse") + "\n  type: gcp\n  password: " + x.s.at("a key of an entry") + "\n",
		entries + "- {name: [" + x.s.at("half a file") + "\n",
		strings.Replace(entries, "project: project-a\n", "project: project-b\n", 1), // in use
	} {
		before := strings.Count(p.log.String(), `"level":"error"`)
		x.publish(text)
		untilWithin(t, patience, fmt.Sprintf("complaint %d about the entries", i), func() bool { return strings.Count(p.log.String(), `"level":"error"`) > before })
	}
	x.publish(entries)
	untilWithin(t, patience, "the entries accepted", func() bool { return strings.HasPrefix(x.accepted("cloud"), "True ") })
	for i, text := range []string{
		"tokens: [" + x.s.at("half a file of tokens") + "\n",
		"tokens:\n- {name: b, tokn: " + x.s.at("a mistyped member") + "}\n",
		"tokens:\n- {name: b, " + x.s.at("a token as a member") + ": 1}\n",
		"tokens:\n- {name: " + x.s.at("a token as a name") + "!, token: aaaaaaaaaaaaaaaaaaaa}\n",
	} {
		before := strings.Count(p.log.String(), "stay in force")
		x.spoil(text)
		untilWithin(t, patience, fmt.Sprintf("complaint %d about the tokens", i), func() bool { return strings.Count(p.log.String(), "stay in force") > before })
	}
	x.spoil(x.tokenFile("another token of the file"))
	untilWithin(t, patience, "the new token", func() bool {
		return p.crawler(t, x.s.at("another token of the file")).get("/v1/proxies").status == http.StatusOK
	})
}

// ill has all proxies refuse the credentials, and then, together with what judges them, fail.
func (x *planted) ill() {
	t := x.cloudOnHost.t
	x.mood.Store(refusing)
	untilWithin(t, patience, "the credentials refused", func() bool { return x.healthy("one", v1alpha1.ReasonProxyAuthFailed) })
	x.mood.Store(serving)
	untilWithin(t, patience, "healthy again", func() bool { return x.ready("one") && x.ready("spare-1") })
	x.broken.Store(true)
	x.mood.Store(failing)
	untilWithin(t, patience, "a suspicion", func() bool {
		return x.healthy("one", v1alpha1.ReasonSharedCauseSuspected) || x.healthy("spare-1", v1alpha1.ReasonSharedCauseSuspected)
	})
	x.broken.Store(false)
	untilWithin(t, patience, "the proxies alone are at fault", func() bool {
		return x.healthy("one", v1alpha1.ReasonBadResponse) || x.healthy("one", v1alpha1.ReasonProxyRefused) || x.healthy("one", v1alpha1.ReasonUnexpectedStatus)
	})
	x.mood.Store(serving)
	untilWithin(t, patience, "healthy once more", func() bool { return x.ready("one") })
}
