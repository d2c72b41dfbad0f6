package baseimage_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
)

// A download is a trace of its own, linked to the call that asked for it, and outlives that.
func TestSpansAndLines(t *testing.T) {
	for _, ok := range []bool{true, false} {
		var r *rig
		r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
			if !ok {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			r.serve(w, r.data)
		})
		r.image.URL = strings.Replace(r.image.URL, "http://", "http://user:secret@", 1) + "?secret"
		rec := tracetest.NewSpanRecorder()
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec))
		t.Cleanup(func() { _ = tp.Shutdown(context.Background()) })
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(logf.IntoContext(t.Context(), ctrlzap.New(ctrlzap.WriteTo(&out), ctrlzap.JSONEncoder(), ctrlzap.Level(zap.DebugLevel))))
		ctx, pass := tp.Tracer("test").Start(ctx, "pass")
		_ = r.cache.Prepare(ctx, r.image)
		pass.End()
		cancel()
		r.cache.Wait()

		var span sdktrace.ReadOnlySpan
		for _, s := range rec.Ended() {
			text := fmt.Sprint(s.Name(), s.Attributes(), s.Status())
			if strings.Contains(text, "secret") {
				t.Errorf("span %s", text)
			}
			if s.Name() == "kvm.download" {
				span = s
			}
		}
		if span == nil {
			t.Fatal("no span")
		}
		attrs := fmt.Sprint(span.Attributes())
		if span.Parent().IsValid() || len(span.Links()) != 1 || span.Links()[0].SpanContext.SpanID() != pass.SpanContext().SpanID() ||
			!strings.Contains(attrs, "host1") || !strings.Contains(attrs, "debian") {
			t.Errorf("span %v, links %v", attrs, span.Links())
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		end := map[bool]string{true: fmt.Sprintf(`"host":"host1","image":"debian","bytes":%d}`, len(r.data)), false: `"class":"permanent","error":"image \"debian\": http://127.0.0.1`}[ok]
		if len(lines) != 2 || !strings.Contains(lines[0], "download begins") || !strings.Contains(lines[1], end) ||
			!strings.Contains(lines[1], span.SpanContext().TraceID().String()) || strings.Contains(out.String(), "secret") || !strings.Contains(lines[0], `"level":"debug"`) {
			t.Errorf("lines %s", out.String())
		}
		if !ok {
			r.failed(provider.ErrPermanent)
			if span.Status().Description == "" {
				t.Error("the span does not say that it failed")
			}
		}
	}
}
