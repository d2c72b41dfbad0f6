package main

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	traces "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

// below is what may stand below a call of a provider of each type.
const (
	httpCall = ` > HTTP (GET|POST|PUT|PATCH|DELETE)`
	rpcCall  = ` > kvm\.[A-Za-z]+( > kvm\.dial)?`
	calls    = `provider\.(create|get|delete|list|update_credentials)`
	anyCall  = `(` + calls + `\[local\]|` + calls + `\[(gcp|kubernetes)\](` + httpCall + `)?|(` + calls + `|provider\.plan)\[kvm\](` + rpcCall + `)?)`
)

// standing matches where spans may stand, each as a whole path.
func standing(probes bool) *regexp.Regexp {
	all := []string{
		`Reconcile Proxy( > status\.patch( > HTTP PATCH)?)?`, // an External one is nobody's but ours
		`Reconcile Proxy > (reconcile\.managed|reconcile\.managed > reconcile\.replaceInstance|reconcile\.delete)` +
			`( > status\.patch( > HTTP PATCH)?| > HTTP (GET|PATCH)| > ` + anyCall + `)?`,
		`gc\.sweep( > HTTP GET| > ` + anyCall + `)?`,
		`(provider\.list\[local\]|provider\.list\[(gcp|kubernetes)\](` + httpCall + `)?|provider\.list\[kvm\](` + rpcCall + `)?)`, // what is observed
		`providerhealth\.check\[local\]|providerhealth\.check\[(gcp|kubernetes)\](` + httpCall + `)?|providerhealth\.check\[kvm\](` + rpcCall + `)?`,
		`kvm\.download( > HTTP GET| > kvm\.[A-Za-z]+)?`,
		`(client > )?(GET|POST|DELETE) /v1/(proxies|proxies/\{namespace\}/\{name\}|leases|leases/\{id\}|leases/\{id\}/(renew|report))`,
	}
	if probes {
		all = append(all, `health\.probe`)
	}
	return regexp.MustCompile(`^(` + strings.Join(all, "|") + `)$`)
}

// rule is what holds of the spans of some names.
type rule struct {
	kind traces.Span_SpanKind
	// needs are the attributes that each has, may those that some have; there are no others.
	needs, may []string
	// statuses are the ones that may be, each as a code and the beginning of a description.
	statuses []string
}

const (
	internal = traces.Span_SPAN_KIND_INTERNAL
	asked    = traces.Span_SPAN_KIND_CLIENT
	served   = traces.Span_SPAN_KIND_SERVER
)

func ruleOf(s otlptest.Span) rule {
	name, _, _ := strings.Cut(s.GetName(), " ")
	switch {
	case s.GetName() == "Reconcile Proxy":
		return rule{internal, []string{"proxy.name", "proxy.namespace"}, nil, []string{"Unset", "Error the pass failed"}}
	case strings.HasPrefix(name, "reconcile."), name == "status.patch":
		return rule{internal, nil, nil, []string{"Unset", "Error " + name + " failed"}}
	case name == "gc.sweep":
		return rule{internal, nil, nil, []string{"Unset"}}
	case name == "providerhealth.check":
		return rule{internal, []string{"provider.name", "provider.type"}, []string{"provider.targets", "provider.targets.ready"}, []string{"Unset", "Error "}}
	case strings.HasPrefix(name, "provider."):
		r := rule{asked, []string{"provider.name", "provider.result"}, nil, []string{"Error " + value(s, "provider.result") + ": "}}
		if result := value(s, "provider.result"); result == "ok" || result == "not_found" {
			r.statuses = []string{"Ok"}
		}
		if planned := name == "provider.plan" && value(s, "provider.result") == "ok"; planned || name != "provider.plan" && name != "provider.list" {
			r.needs = append(r.needs, "provider.id")
		}
		return r
	case name == "kvm.download":
		return rule{internal, []string{"kvm.bytes", "kvm.host", "kvm.image"}, nil, []string{"Unset", "Error "}}
	case strings.HasPrefix(name, "kvm."):
		return rule{internal, []string{"kvm.host"}, []string{"libvirt.code"}, []string{"Unset", "Error "}}
	case name == "health.probe":
		return rule{internal, []string{"health.inconclusive", "health.reason", "proxy.name", "proxy.namespace"}, nil, []string{"Unset", "Error "}}
	case name == "HTTP":
		return rule{asked, []string{"http.request.method", "server.address", "server.port", "url.full"},
			[]string{"error.type", "http.request.body.size", "http.response.body.size", "http.response.status_code", "network.protocol.version"},
			httpStatus(s)}
	default:
		status := []string{"Unset"}
		if value(s, "http.response.status_code") >= "5" {
			status = []string{"Error"}
		}
		return rule{served, []string{"http.request.method", "http.response.status_code", "http.route"}, nil, status}
	}
}

// httpStatus is that of a client's span by the semantic conventions: an error is no answer, or one from 400 on.
func httpStatus(s otlptest.Span) []string {
	if code := value(s, "http.response.status_code"); code != "" && code < "400" {
		return []string{"Unset"}
	}
	return []string{"Error"}
}

// ids are what IDs of instances look like.
var ids = map[string]*regexp.Regexp{
	"local":      regexp.MustCompile(`^hosts/host-1/processes/proxy-[a-z2-7]{16}$`),
	"kubernetes": regexp.MustCompile(`^binary-[a-z0-9]+/proxy-[a-z2-7]{16}$`),
	"gcp":        regexp.MustCompile(`^projects/project-a/zones/us-central1-a/instances/proxy-[a-z2-7]{16}$`),
	"kvm":        regexp.MustCompile(`^hosts/hv-[abx]/domains/proxy-[a-z2-7]{16}$`),
}

// check holds a span against its rule.
func (t *tree) check(s otlptest.Span) (wrong []string) {
	r := ruleOf(s)
	if s.GetKind() != r.kind {
		wrong = append(wrong, fmt.Sprint("its kind is ", s.GetKind()))
	}
	has := keys(s)
	for _, key := range r.needs {
		if !slices.Contains(has, key) {
			wrong = append(wrong, "it has no "+key)
		}
	}
	for _, key := range has {
		if !slices.Contains(r.needs, key) && !slices.Contains(r.may, key) {
			wrong = append(wrong, "it has "+key+" "+value(s, key))
		}
	}
	status := strings.TrimSpace(codeOf(s) + " " + s.GetStatus().GetMessage())
	if !slices.ContainsFunc(r.statuses, func(want string) bool {
		return status == want || strings.HasPrefix(want, "Error") && strings.HasPrefix(status, want)
	}) {
		wrong = append(wrong, fmt.Sprintf("its status is %q, want one of %q", status, r.statuses))
	}
	if len(s.GetEvents()) > 0 {
		wrong = append(wrong, fmt.Sprint("it has events ", s.GetEvents()))
	}
	if strings.HasPrefix(s.GetName(), "HTTP ") {
		wrong = append(wrong, t.checkHTTP(s)...)
	}
	if entry := value(s, "provider.name"); entry != "" {
		kind := t.types[entry]
		if id := value(s, "provider.id"); kind == "" || id != "" && !ids[kind].MatchString(id) {
			wrong = append(wrong, fmt.Sprintf("it is of %q and about %q", entry, id))
		}
	}
	return wrong
}

func (t *tree) checkHTTP(s otlptest.Span) (wrong []string) {
	if "HTTP "+value(s, "http.request.method") != s.GetName() {
		wrong = append(wrong, "its method is "+value(s, "http.request.method"))
	}
	if u, err := url.Parse(value(s, "url.full")); err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Hostname() != value(s, "server.address") {
		wrong = append(wrong, "its URL is "+value(s, "url.full"))
	}
	if answered, failed := value(s, "http.response.status_code") != "", value(s, "error.type") != ""; !answered && !failed {
		wrong = append(wrong, "it has neither a status code nor a type of error")
	}
	// What outlives the work that it is for is no request of that work.
	if above := t.byID[string(s.GetParentSpanId())]; above.Span != nil && s.GetEndTimeUnixNano() > above.GetEndTimeUnixNano() {
		wrong = append(wrong, "it ends after the span above it")
	}
	return wrong
}

// checkAll holds every span against the rules, and every trace: it is one unit of work.
func (t *tree) checkAll(test *testing.T, probes bool) {
	test.Helper()
	stands := standing(probes)
	roots, passes := map[string]int{}, map[string]int{}
	wrong := map[string]bool{} // each once
	for _, s := range t.all {
		path := t.path(s)
		if !stands.MatchString(path) {
			wrong["a span stands at "+path] = true
		}
		for _, w := range t.check(s) {
			wrong[path+": "+w] = true
		}
		above, known := t.byID[string(s.GetParentSpanId())]
		if known && string(above.GetTraceId()) != string(s.GetTraceId()) {
			wrong[path+" is of another trace than what is above it"] = true
		}
		if !known && !strings.HasPrefix(path, "client > ") {
			roots[string(s.GetTraceId())]++
		}
		if s.GetName() == "reconcile.managed" || s.GetName() == "reconcile.delete" {
			passes[string(s.GetTraceId())]++
		}
	}
	for _, n := range roots {
		if n != 1 {
			wrong[fmt.Sprintf("a trace has %d roots", n)] = true
		}
	}
	for _, n := range passes {
		if n != 1 {
			wrong[fmt.Sprintf("a trace has %d passes", n)] = true
		}
	}
	for w := range wrong {
		test.Error(w)
	}
}
