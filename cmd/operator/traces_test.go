package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// The roles of a backend's Proxies: one is replaced, one deleted, and one lets its instance go.
const (
	roleKept = "kept"
	roleGone = "gone"
	roleLeft = "left"
)

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
)

// life lets the Proxies of all backends be made, leased, replaced, deleted and collected, with broken providers beside them, of
// which failed has to be recorded. It returns all that has to be.
func (x *stage) life(failing []*backend, failed []seen) (wanted []seen) {
	x.t.Helper()
	good := slices.DeleteFunc(slices.Clone(x.backends), func(b *backend) bool { return slices.Contains(failing, b) })
	roles := []string{roleKept, roleGone, roleLeft}
	for _, b := range good {
		for _, role := range roles {
			x.create(b, role)
		}
	}
	for i, b := range failing {
		x.create(b, fmt.Sprint("failing-", i))
	}
	for _, b := range good {
		for _, role := range roles {
			x.until(b.name(role)+" is there", func() bool { return x.done(b, role, 0) })
		}
	}
	before := map[*backend]int64{}
	for _, b := range good {
		if b.serves {
			x.lease(b)
		}
		before[b] = x.get(b.name(roleKept)).Status.Instance.Attempt
		x.left[b] = x.get(b.name(roleLeft)).UID
		x.release(b.name(roleLeft))
		x.annotate(b.name(roleKept), v1alpha1.AnnotationReplace, "1")
		x.remove(b.name(roleGone))
	}
	for b, uid := range x.left {
		x.until(b.name(roleLeft)+" is released", func() bool { return x.get(b.name(roleLeft)).Name == "" })
		b.age(uid)
	}
	wanted = slices.Clone(failed)
	for _, b := range good {
		x.until(b.name(roleGone)+" is gone", func() bool { return x.get(b.name(roleGone)).Name == "" })
		x.until(b.name(roleKept)+" is replaced", func() bool { return x.done(b, roleKept, before[b]) })
		wanted = append(wanted, b.wanted()...)
	}
	last := time.Now().Add(time.Minute) // what is missing then is told in the end
	x.until("all spans", func() bool { return len(x.tree().missing(wanted)) == 0 || time.Now().After(last) })
	for _, b := range good {
		x.release(b.name(roleKept))
		x.until(b.name(roleKept)+" is released", func() bool { return x.get(b.name(roleKept)).Name == "" })
	}
	for i, b := range failing {
		x.release(b.name(fmt.Sprint("failing-", i)))
		x.until(b.entry+" is released", func() bool { return x.get(b.name(fmt.Sprint("failing-", i))).Name == "" })
	}
	return wanted
}

// wanted is what has to be recorded of a life.
func (b *backend) wanted() (out []seen) {
	call := func(above, op, result string, below ...string) {
		path := op + "[" + b.kind + "]"
		if above != "" {
			path = above + " > " + path
		}
		out = append(out, seen{path, b.entry, result})
		for _, name := range below {
			out = append(out, seen{path + " > " + name, b.entry, ""})
		}
	}
	const managed, replace, deletion, sweep = "Reconcile Proxy > reconcile.managed", "Reconcile Proxy > reconcile.managed > reconcile.replaceInstance",
		"Reconcile Proxy > reconcile.delete", "gc.sweep"
	made, looked, listed, removed := below(b.kind)
	call(managed, "provider.create", "ok", made...)
	call(managed, "provider.get", "ok", looked...)
	call(replace, "provider.delete", "ok", removed...)
	call(managed, "provider.get", "not_found", looked...)
	call(deletion, "provider.delete", "ok", removed...)
	call(deletion, "provider.get", "not_found", looked...)
	call(sweep, "provider.list", "ok", listed...)
	call(sweep, "provider.delete", "ok", removed...)
	call("", "provider.list", "ok", listed...)
	call("", "providerhealth.check", "")
	if b.kind == "kvm" {
		call(managed, "provider.plan", "ok", "kvm.NodeGetMemoryStats")
		call(managed, "provider.plan", "transient") // while the image is on its way
		out = append(out, seen{"kvm.download", "", "Unset"}, seen{"kvm.download > HTTP GET", "", "Unset"}, seen{"kvm.download > kvm.StorageVolUpload", "", "Unset"},
			seen{"kvm.download > kvm.dial", "", "Unset"}, seen{anywhere + "kvm.dial", b.entry, "Unset"})
	}
	for _, path := range []string{
		managed + " > HTTP PATCH", managed + " > status.patch > HTTP PATCH", replace + " > status.patch > HTTP PATCH", deletion + " > HTTP PATCH", sweep + " > HTTP GET",
	} {
		out = append(out, seen{path, "", "Unset"})
	}
	return out
}

// below is what stands below a creation, a look, a list and a deletion.
func below(kind string) (made, looked, listed, removed []string) {
	switch kind {
	case "kvm":
		return []string{"kvm.DomainDefineXMLFlags", "kvm.StorageVolUpload", "kvm.DomainCreateWithFlags"}, []string{"kvm.DomainLookupByName"},
			[]string{"kvm.ConnectListAllDomains"}, []string{"kvm.DomainDestroyFlags", "kvm.StorageVolDelete", "kvm.DomainUndefineFlags"}
	case "local":
		return nil, nil, nil, nil
	}
	return []string{"HTTP POST"}, []string{"HTTP GET"}, []string{"HTTP GET"}, []string{"HTTP DELETE"}
}

// lease leases the backend's Proxy as a client that has a trace of its own.
func (x *stage) lease(b *backend) {
	x.t.Helper()
	const parent = "00-" + clientTrace + "-" + clientSpan + "-01"
	body := fmt.Sprintf(`{"selector":{"role":%q}}`, b.name(roleKept))
	var lease struct{ LeaseID string }
	x.until("a lease of "+b.kind, func() bool {
		status, answer := x.request(x.t.Context(), "POST", "/v1/leases", body, parent)
		return status == 201 && json.Unmarshal([]byte(answer), &lease) == nil
	})
	at := "/v1/leases/" + url.PathEscape(lease.LeaseID)
	for _, q := range []struct {
		method, path, body, parent string
		status                     int
	}{
		{"GET", "/v1/proxies?attr.role=sentinel", "", parent, 200},
		{"GET", "/v1/proxies/" + x.ns + "/" + b.name(roleKept), "", "", 200},
		{"GET", at, "", "", 200},
		{"POST", at + "/renew", "{}", parent, 200},
		{"POST", at + "/report", `{"result":"ok","target":"sentinel.example"}`, "not one", 204},
		{"POST", "/v1/leases", `{"selector":{"role":"nobody"}}`, "", 409},
		{"GET", "/v1/leases/sentinel", "", "", 404},
		{"DELETE", at, "", "", 204},
		{"GET", "/healthz", "", parent, 200},
	} {
		if status, answer := x.request(x.t.Context(), q.method, q.path, q.body, q.parent); status != q.status {
			x.t.Errorf("%s %s answers %d %s, want %d", q.method, q.path, status, answer, q.status)
		}
	}
}

// leased is what has to be recorded of lease.
func leased() (out []seen) {
	for _, path := range []string{
		"client > POST /v1/leases", "client > GET /v1/proxies", "client > POST /v1/leases/{id}/renew", "POST /v1/leases/{id}/report", "POST /v1/leases",
		"GET /v1/proxies/{namespace}/{name}", "GET /v1/leases/{id}", "DELETE /v1/leases/{id}",
	} {
		out = append(out, seen{path, "", "Unset"})
	}
	return out
}

// finish ends the operator and looks at all that it has sent.
func (x *stage) finish(probes bool, wanted []seen, who ...string) *tree {
	x.t.Helper()
	if err := x.op.stop(x.t); err != nil {
		x.t.Error(err)
	}
	all := x.tree()
	if m := all.missing(wanted); len(m) > 0 {
		x.t.Errorf("there is no %q among\n%s", m, strings.Join(all.paths(), "\n"))
	}
	if os.Getenv("SHOW_TRACES") != "" {
		x.t.Log(strings.Join(all.paths(), "\n"))
	}
	all.checkAll(x.t, probes)
	x.collected(all)
	x.silent(append(who, "the API server"))
	x.hidden(all)
	for _, s := range all.all {
		resource := fmt.Sprint(s.Resource)
		if !strings.Contains(resource, "egress-proxies-operator") || !strings.Contains(resource, "deployment.environment.name") {
			x.t.Fatalf("the resource is %s", resource)
		}
	}
	if log := x.op.log.String(); !strings.Contains(log, `"traceID":"`) || !strings.Contains(log, `"spanID":"`) {
		x.t.Error("no line of the log names its span")
	}
	return all
}

// collected checks that the collector has deleted what was left, and nothing else.
func (x *stage) collected(all *tree) {
	x.t.Helper()
	found := map[string]bool{}
	for _, s := range all.all {
		if s.GetName() == "provider.delete" && strings.HasPrefix(all.path(s), "gc.sweep") {
			id := value(s, "provider.id")
			found[all.entry(s)+" "+id[strings.LastIndex(id, "/")+1:]] = true
		}
	}
	for b, uid := range x.left {
		name := b.entry + " " + provider.NameFromUID(string(uid))
		if !found[name] {
			x.t.Errorf("%s was not collected: %v", name, found)
		}
		delete(found, name)
	}
	if len(found) > 0 {
		x.t.Errorf("collected was %v, too", found)
	}
}

// hidden checks that nothing of what was sent holds a secret, be it as it is or in base64.
func (x *stage) hidden(all *tree) {
	x.t.Helper()
	words := append([]string{secretWord, "t0ken-of-the-test"}, x.secrets...)
	for _, secret := range []string{secretPassword, secretUser, secretUser + ":" + secretPassword, cloudInit, kubeToken} {
		for shift := range 3 { // wherever it begins in what was encoded
			text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
			words = append(words, text[(shift*8+5)/6:len(text)-4])
		}
	}
	for _, data := range x.receiver.Payloads() {
		for _, word := range words {
			if len(word) > 5 && bytes.Contains(bytes.ToLower(data), []byte(strings.ToLower(word))) {
				for _, s := range all.all {
					if text := fmt.Sprint(s.Span); strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
						x.t.Fatalf("%s shows a secret: %s", all.path(s), text)
					}
				}
				x.t.Fatal("a delivery shows a secret")
			}
		}
	}
}

// silent says who has heard nothing although something was meant for it, and who was told of traces.
func (x *stage) silent(who []string) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, w := range who {
		if x.heard[w] == 0 {
			x.t.Errorf("%s has got no request", w)
		}
	}
	for who := range x.told {
		x.t.Errorf("it was told of traces: %s", who)
	}
}

// onlyRequests checks that spans are those of requests, and of no watch: there are no more of them than requests that are none.
func (x *stage) onlyRequests(all *tree) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watches == 0 {
		x.t.Error("there was no watch")
	}
	shown := map[string]int{}
	for _, s := range all.all {
		if u, err := url.Parse(value(s, "url.full")); err == nil && u.Path != "" {
			shown[value(s, "http.request.method")+" "+u.Host+u.Path]++
		}
	}
	for what, n := range shown {
		if asked := x.asked[what]; asked > 0 && n > asked {
			x.t.Errorf("%d spans of %s, for %d requests besides watches", n, what, asked)
		}
	}
}
