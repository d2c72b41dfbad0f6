package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// stopLimit is for how long a collector that does not answer may hold up the end of the process.
const stopLimit = 5 * time.Second

// Options are what Start needs besides Settings.
type Options struct {
	// Service and Version name what sends, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise.
	Service, Version string
	// Attributes are further ones of the process, such as its Pod.
	Attributes []attribute.KeyValue
	// Out is where Console writes.
	Out io.Writer
	Log logr.Logger
	// Counts, unless nil, takes in what becomes of spans that are sent to a collector.
	Counts *Counts
}

// Start installs what s asks for as the process's tracer provider, and returns what ends it: it sends what is left, within 5 s.
// With nothing to do it changes nothing. It does not wait for a collector. Headers, certificates, compression and time-outs
// come from their own variables.
func Start(ctx context.Context, s Settings, o Options) (stop func(), err error) {
	for _, w := range s.Warnings {
		o.Log.Info("WARNING: tracing: a variable is not used as it stands", "reason", w)
	}
	if len(s.Exporters) == 0 {
		return func() {}, nil
	}
	// What it has to say of a variable quotes it. Read has looked at them all.
	otel.SetLogger(logr.Discard())
	opts := []sdktrace.TracerProviderOption{sdktrace.WithSampler(s.Sampler.build()), sdktrace.WithResource(describe(ctx, o))}
	counts, failed := o.Counts, newFailures(o.Log)
	if counts == nil {
		counts = &Counts{}
	}
	for _, name := range s.Exporters {
		e, err := s.exporter(ctx, name, o.Out)
		if err != nil {
			return nil, fmt.Errorf("tracing by %s: %w", name, err)
		}
		if name == Console {
			opts = append(opts, sdktrace.WithSyncer(counted{e, counts, nil}))
		} else {
			opts = append(opts, sdktrace.WithSpanProcessor(s.Batch.queue(e, counts, failed.full)))
		}
	}
	p := sdktrace.NewTracerProvider(opts...)
	otel.SetErrorHandler(failed)
	otel.SetTracerProvider(p)
	o.Log.Info("tracing", "exporters", s.Exporters, "endpoint", s.shown(), "sampler", s.Sampler.Name)
	return func() { finish(p, o.Log) }, nil
}

// shown is the endpoint without what may be secret in it.
func (s Settings) shown() string {
	if s.Endpoint == nil {
		return ""
	}
	return s.Endpoint.Scheme + "://" + s.Endpoint.Host
}

func (s Settings) exporter(ctx context.Context, name string, out io.Writer) (sdktrace.SpanExporter, error) {
	if name == Console {
		return stdouttrace.New(stdouttrace.WithWriter(out))
	}
	if s.Protocol == GRPC {
		var opts []otlptracegrpc.Option
		if s.Endpoint != nil {
			opts = append(opts, otlptracegrpc.WithEndpointURL(s.Endpoint.String()))
		}
		return otlptrace.New(ctx, otlptracegrpc.NewClient(opts...))
	}
	opts := []otlptracehttp.Option{otlptracehttp.WithEncoding(otlptracehttp.EncodingProtobuf)}
	if s.Protocol == JSON {
		opts[0] = otlptracehttp.WithEncoding(otlptracehttp.EncodingJSON)
	}
	if s.Endpoint != nil {
		opts = append(opts, otlptracehttp.WithEndpointURL(s.Endpoint.String()))
	}
	return otlptrace.New(ctx, otlptracehttp.NewClient(opts...))
}

// describe says who sends. Attributes of the environment that cannot be read are left out.
func describe(ctx context.Context, o Options) *resource.Resource {
	own := resource.NewSchemaless(append([]attribute.KeyValue{
		semconv.ServiceName(o.Service), semconv.ServiceVersion(o.Version),
	}, o.Attributes...)...)
	given, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		o.Log.Info("WARNING: tracing: a variable is not used as it stands", "reason", "OTEL_RESOURCE_ATTRIBUTES: it is not a list of key=value; what can be read of it is used")
	}
	all, err := resource.Merge(own, given) // what is given counts
	if err != nil {
		return own
	}
	return all
}

// finish sends what is left.
func finish(p *sdktrace.TracerProvider, log logr.Logger) {
	// Not of the process's own context, which has ended by now.
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.Shutdown(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done(): // exporters have time-outs of their own, which may be longer
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Info("tracing: spans were lost at the end")
	}
}
