package gcp_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// bodies are those of the wire's lines, by the line's message.
func (l *logs) bodies(message string) (all []string) {
	for _, line := range l.lines {
		if line["msg"] == message && line["body"] != nil {
			text, _ := json.Marshal(line["body"])
			all = append(all, string(text))
		}
	}
	return all
}

// With the flag, bodies are shown, and metadata in none of them.
func TestPayloadsAreShownWithoutMetadata(t *testing.T) {
	w := newTraced(t, func(w *world) { w.settings.LogPayloads = true })
	req := w.secret()
	ref := w.ref(req, 1)
	l := &logs{t: t}
	ctx := l.into(w.ctx)
	w.emulator.InjectOnce(gcpemulator.On("instances.insert"), gcpemulator.Fault{
		Status: 400, Reason: "invalid", Message: "Invalid value for field 'resource.metadata.items[0].value': '" + req.CloudInit + "'.",
	})
	if err := w.p.Create(ctx, req, ref); err == nil {
		t.Error("it was taken")
	}
	must(w.t, w.p.Create(ctx, req, ref))
	if inst, err := w.p.Get(ctx, ref); err != nil || inst.IP == "" { // the answer is whole for the provider
		t.Errorf("%+v, %v", inst, err)
	}
	_, err := w.p.ListByTag(ctx)
	must(w.t, err)
	asked, answered := strings.Join(l.bodies("request"), "\n"), strings.Join(l.bodies("answer"), "\n")
	for _, want := range []string{
		`"metadata":"withheld"`, `"machineType":"zones/us-central1-a/machineTypes/e2-micro"`,
		// The disk is told apart by the same marks, also where its VM is gone.
		fmt.Sprintf(`"initializeParams":{"description":"crawl.example.com/proxy %s/%s"`, req.Namespace, req.ProxyName),
	} {
		if !strings.Contains(asked, want) {
			t.Errorf("asked is %s\nwant %s in it", asked, want)
		}
	}
	for _, want := range []string{`"status":"RUNNING"`, "resource.metadata.items[0].value …"} {
		if !strings.Contains(answered, want) {
			t.Errorf("answered is %s\nwant %s in it", answered, want)
		}
	}
}

// What is too large or no JSON is withheld, and reaches the provider all the same.
func TestPayloadsThatCannotBeJudgedAreWithheld(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.settings.LogPayloads = true
	w.fill(300)
	p := w.provider()
	l := &logs{t: t}
	listing, err := p.ListByTag(l.into(t.Context()))
	if err != nil || len(listing.Instances) != 300 {
		t.Errorf("%d listed, %v", len(listing.Instances), err)
	}
	if got := l.bodies("answer"); len(got) != 2 || got[1] != `"withheld"` {
		t.Errorf("the bodies are %.200q", got)
	}
	l = &logs{t: t}
	w.emulator.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 200, HTML: true})
	_, _ = p.Get(l.into(t.Context()), w.ref(w.request(), 1))
	if got := l.bodies("answer"); len(got) == 0 || got[0] != `"withheld"` {
		t.Errorf("the bodies are %q", got)
	}
	// The largest request.
	l = &logs{t: t}
	req := w.request()
	req.CloudInit = strings.Repeat("sentinel", 32<<10)
	must(w.t, p.Create(l.into(t.Context()), req, w.ref(req, 1)))
	if got := l.bodies("request"); len(got) != 1 || !strings.Contains(got[0], `"metadata":"withheld"`) {
		t.Errorf("the bodies are %.200q", got)
	}
}

// An answer that breaks off is as broken for the provider as without the log.
func TestPayloadsThatBreakOff(t *testing.T) {
	w := newT(t, gcpemulator.Options{})
	w.settings.LogPayloads = true
	l := &logs{t: t}
	w.emulator.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Status: 200, Body: `{"id": "1", "status": "RUN`})
	if _, err := w.provider().Get(l.into(t.Context()), w.ref(w.request(), 1)); err == nil {
		t.Error("it was taken")
	}
	w.emulator.InjectOnce(gcpemulator.On("instances.get"), gcpemulator.Fault{Reset: true})
	if _, err := w.provider().Get(l.into(t.Context()), w.ref(w.request(), 1)); err == nil {
		t.Error("it was taken")
	}
	if got := l.at(5, "msg"); !strings.Contains(strings.Join(got, ","), "no answer") {
		t.Errorf("the lines are %q", got)
	}
}
