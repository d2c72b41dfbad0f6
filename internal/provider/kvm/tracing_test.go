package kvm_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// traced is a world whose provider is called in a trace.
type traced struct {
	*world
	plain *kvm.Provider
	p     provider.Provider
	ctx   context.Context
	rec   *tracetest.SpanRecorder
}

func newTraced(t *testing.T) *traced {
	t.Helper()
	w := newT(t)
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	ctx, span := tp.Tracer("test").Start(t.Context(), "pass")
	t.Cleanup(func() {
		span.End()
		_ = tp.Shutdown(context.Background())
	})
	p := w.onlyA()
	return &traced{w, p, instrument.WithTracing(p, entry), ctx, rec}
}

// secret is a request of which much must show nowhere.
func (w *world) secret() provider.CreateRequest {
	req := w.request()
	req.CloudInit = "#cloud-config\n# sentinel-cloud-init sentinel-password\n"
	req.Credentials = &provider.Credentials{Username: "sentinel-user", Password: "sentinel-password", Revision: "r1"}
	return req
}

// hidden is what must show nowhere.
var hidden = regexp.MustCompile(`sentinel`)

// call makes one call and returns its span and those of the calls to the daemon, after a look at what goes for all of them.
func (w *traced) call(t *testing.T, op string, do func(context.Context) error) (span sdktrace.ReadOnlySpan, calls []sdktrace.ReadOnlySpan, err error) {
	t.Helper()
	w.rec.Reset()
	err = do((&logs{t: t}).into(w.ctx)) // whose lines must not show too much, either
	ended := w.rec.Ended()
	if len(ended) == 0 || ended[len(ended)-1].Name() != "provider."+op {
		t.Fatalf("%d spans, want provider.%s to end last", len(ended), op)
	}
	span, calls = ended[len(ended)-1], ended[:len(ended)-1]
	for i, s := range calls {
		// What had to wait for the connection shows what that took.
		above := span
		if s.Name() == "kvm.dial" && i+1 < len(calls) {
			above = calls[i+1]
		}
		if s.Parent().SpanID() != above.SpanContext().SpanID() || attributesOf(s)["kvm.host"] != hostA {
			t.Errorf("%s of %s with %v is below %v", s.Name(), op, s.Attributes(), s.Parent().SpanID())
		}
		if s.StartTime().Before(span.StartTime()) || s.EndTime().After(span.EndTime()) {
			t.Errorf("%s of %s is not inside of it in time", s.Name(), op)
		}
	}
	for _, s := range ended {
		if all := fmt.Sprint(s.Name(), s.Attributes(), s.Status(), s.Events(), s.Links()); hidden.MatchString(all) {
			t.Errorf("%s of %s shows too much: %s", s.Name(), op, all)
		}
	}
	if err != nil && hidden.MatchString(fmt.Sprintf("%v %+v", err, err)) {
		t.Errorf("%s: the error shows too much: %v", op, err)
	}
	return span, calls, err
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]string {
	out := map[string]string{}
	for _, a := range s.Attributes() {
		out[string(a.Key)] = a.Value.String()
	}
	return out
}

// short is what a trace says of calls: their names, and how often each follows on itself.
func short(spans []sdktrace.ReadOnlySpan) (out []string) {
	for _, s := range spans {
		out = append(out, strings.TrimPrefix(s.Name(), "kvm."))
	}
	return out
}

func TestEveryCallToTheDaemonIsAChild(t *testing.T) {
	w := newTraced(t)
	req := w.secret()
	ref := w.ref(req, 1)
	for _, step := range []struct {
		op   string
		do   func(context.Context) error
		want []string
	}{
		{"create", func(ctx context.Context) error { return w.p.Create(ctx, req, ref) }, []string{
			"dial", "DomainLookupByName", "DomainLookupByUUID", "NodeGetMemoryStats", "StoragePoolLookupByName", "StoragePoolGetInfo",
			"StoragePoolLookupByName", "StoragePoolListAllVolumes",
			"StorageVolLookupByName", "StorageVolGetInfo", // the base image's marker
			"StoragePoolLookupByName", "StoragePoolGetXMLDesc", "DomainDefineXMLFlags", "StorageVolCreateXML", "StorageVolCreateXML", "StorageVolUpload",
			"DomainCreateWithFlags", "DomainAgentSetResponseTimeout",
		}},
		{"get", func(ctx context.Context) error {
			w.daemons[hostA].Boot()
			inst, err := w.p.Get(ctx, ref)
			if hidden.MatchString(fmt.Sprintf("%+v", inst)) {
				t.Errorf("the instance shows too much: %+v", inst)
			}
			return err
		}, []string{"DomainLookupByName", "DomainGetMetadata", "DomainGetState", "NetworkGetDhcpLeases"}},
		{"list", func(ctx context.Context) error {
			l, err := w.p.ListByTag(ctx)
			if hidden.MatchString(fmt.Sprintf("%+v", l)) {
				t.Errorf("the list shows too much: %+v", l)
			}
			return err
		}, []string{"StoragePoolLookupByName", "StoragePoolListAllVolumes", "ConnectListAllDomains", "DomainGetMetadata", "DomainGetState", "NetworkGetDhcpLeases"}},
		{"delete", func(ctx context.Context) error { return w.p.Delete(ctx, ref) }, []string{
			"DomainLookupByName", "DomainGetMetadata", "DomainGetState", "DomainDestroyFlags", "StoragePoolLookupByName",
			"StorageVolLookupByName", "StorageVolDelete", "StorageVolLookupByName", "StorageVolDelete", "DomainUndefineFlags", "DomainLookupByUUID",
		}},
	} {
		span, calls, err := w.call(t, step.op, step.do)
		must(w.t, err)
		if got := short(calls); !slices.Equal(got, step.want) {
			t.Errorf("%s:\n%s, want\n%s", step.op, strings.Join(got, "\n"), strings.Join(step.want, "\n"))
		}
		if a := attributesOf(span); span.Status().Code != codes.Ok || a["provider.name"] != entry || a["provider.result"] != "ok" {
			t.Errorf("%s is %v with %v", step.op, span.Status(), a)
		}
		for _, s := range calls {
			// That something is not there is an answer.
			if s.Status().Code == codes.Error {
				t.Errorf("%s of %s is %v", s.Name(), step.op, s.Status())
			}
		}
	}
}

func TestCallsThatFailAreMarked(t *testing.T) {
	w := newTraced(t)
	req := w.secret()
	ref := w.ref(req, 1)
	w.wires[hostA].Once(libvirttest.On("DomainDefineXMLFlags"), func(string, func() error) error {
		return libvirt.Error{Code: uint32(libvirt.ErrXMLError), Message: "not at https://user:sentinel-password@h/ with password=sentinel"}
	})
	span, calls, err := w.call(t, "create", func(ctx context.Context) error { return w.p.Create(ctx, req, ref) })
	expect(t, "Create", err, provider.ErrPermanent, "", "not at https://h/ with password=…")
	i := slices.IndexFunc(calls, func(s sdktrace.ReadOnlySpan) bool { return s.Name() == "kvm.DomainDefineXMLFlags" })
	if i < 0 || calls[i].Status().Code != codes.Error || attributesOf(calls[i])["libvirt.code"] != fmt.Sprint(int(libvirt.ErrXMLError)) {
		t.Errorf("calls %q", short(calls))
	}
	if s := span.Status(); s.Code != codes.Error || !strings.HasPrefix(s.Description, "permanent: DomainDefineXMLFlags: ") {
		t.Errorf("the call is %v", s)
	}
	// A host that is not reached.
	must(w.t, w.plain.Close())
	w.dial = func(context.Context, string) (net.Conn, error) {
		return nil, &dial.Error{Reason: dial.SSHAuthFailed, Err: errors.New("the key is refused")}
	}
	w.plain = w.onlyA()
	w.p = instrument.WithTracing(w.plain, entry)
	_, calls, err = w.call(t, "get", func(ctx context.Context) error { _, err := w.p.Get(ctx, ref); return err })
	expect(t, "Get", err, provider.ErrDenied, "", "the key is refused")
	for _, s := range calls {
		if s.Status().Code != codes.Error || s.Status().Description != "the key is refused" {
			t.Errorf("%s is %v", s.Name(), s.Status())
		}
	}
	if got := short(calls); !slices.Equal(got, []string{"dial", "DomainLookupByName"}) {
		t.Errorf("calls %q", got)
	}
}

// What a daemon quotes of what it was given shows neither in its span nor in the one above.
func TestSpansHideWhatADaemonQuotes(t *testing.T) {
	w := newTraced(t)
	req := w.secret()
	w.wires[hostA].Once(libvirttest.On("DomainDefineXMLFlags"), func(string, func() error) error {
		return libvirt.Error{Code: uint32(libvirt.ErrXMLError), Message: "not understood: " + req.Credentials.Password + " of " + req.CloudInit}
	})
	known := message.NewSecrets([]string{req.Credentials.Password}, []string{req.CloudInit})
	w.rec.Reset()
	ctx := instrument.WithSecrets(w.ctx, known)
	expect(t, "Create", w.p.Create(ctx, req, w.ref(req, 1)), provider.ErrPermanent, "")
	marked := 0
	for _, s := range w.rec.Ended() {
		if all := fmt.Sprint(s.Attributes(), s.Status(), s.Events()); hidden.MatchString(all) {
			t.Errorf("%s shows %s", s.Name(), all)
		}
		if s.Status().Code == codes.Error && strings.Contains(s.Status().Description, "not understood: ") {
			marked++
		}
	}
	if marked != 2 {
		t.Errorf("%d spans say what was wrong, want that of the call and that of the operation", marked)
	}
}

// A download outlives the call that began it: it has a trace of its own, with a link to that.
func TestTheSpanOfADownload(t *testing.T) {
	w := newTraced(t)
	for _, v := range w.daemons[hostA].Volumes() {
		w.daemons[hostA].RemoveVolume(v)
	}
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", fmt.Sprint(len(image)))
		_, _ = rw.Write(image)
	})
	var err error
	for range 5000 {
		if _, err = w.plain.Plan(w.ctx, w.secret()); err == nil {
			break
		}
		must(w.t, pause(t.Context()))
	}
	must(w.t, err)
	must(w.t, w.plain.Close())
	var found int
	for _, s := range w.rec.Ended() {
		if s.Name() != "kvm.download" {
			continue
		}
		found++
		id := s.SpanContext()
		if s.Parent().IsValid() || len(s.Links()) != 1 || attributesOf(s)["kvm.host"] != hostA || attributesOf(s)["kvm.image"] != "debian" {
			t.Errorf("%+v with %v", s, s.Attributes())
		}
		var below []string
		for _, c := range w.rec.Ended() {
			if c.Parent().SpanID() == id.SpanID() {
				below = append(below, c.Name())
			}
		}
		want := []string{
			"kvm.dial", "kvm.StoragePoolLookupByName", "kvm.StoragePoolListAllVolumes", "kvm.StorageVolCreateXML", "kvm.StorageVolLookupByName",
			"HTTP GET", // it ends with the last byte, which the upload takes
			"kvm.StorageVolUpload",
		}
		if len(below) < len(want) || !slices.Equal(below[:len(want)], want) {
			t.Errorf("below it are\n%s, want first\n%s", strings.Join(below, "\n"), strings.Join(want, "\n"))
		}
	}
	if found != 1 {
		t.Errorf("%d downloads", found)
	}
}

// A provider that everybody can get from otel would take whatever begins without a parent.
func TestWithoutATraceCallsBeginNone(t *testing.T) {
	w := newT(t)
	rec := tracetest.NewSpanRecorder()
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
	otel.SetTracerProvider(tp)
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	w.t = providertest.Go(t)
	p := w.provider()
	_, ref := w.made(p)
	_, _ = w.list(p)
	p.Check(t.Context())
	must(w.t, p.Delete(t.Context(), ref))
	if n := len(rec.Started()); n != 0 {
		t.Errorf("%d spans, the first is %s", n, rec.Started()[0].Name())
	}
}
