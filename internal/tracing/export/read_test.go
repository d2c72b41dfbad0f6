package export_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/export"
)

type vars map[string]string

func (v vars) lookup(name string) (string, bool) {
	s, ok := v[name]
	return s, ok
}

// short is what counts of settings.
func short(s export.Settings) string {
	if len(s.Exporters) == 0 {
		return "off"
	}
	endpoint := "default"
	if s.Endpoint != nil {
		endpoint = s.Endpoint.String()
	}
	sampler := s.Sampler.Name
	if strings.Contains(sampler, "ratio") {
		sampler += fmt.Sprintf(" %v", s.Sampler.Ratio)
	}
	return strings.Join(s.Exporters, "+") + " " + s.Protocol + " " + endpoint + " " + sampler
}

const (
	general = "OTEL_EXPORTER_OTLP_ENDPOINT"
	traces  = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	on      = " parentbased_always_on"
)

func TestRead(t *testing.T) {
	with := func(more ...string) vars {
		v := vars{general: "http://c:4318"}
		for i := 0; i < len(more); i += 2 {
			v[more[i]] = more[i+1]
		}
		return v
	}
	const there = "otlp http/protobuf http://c:4318/v1/traces"
	for _, tc := range []struct {
		reason string
		vars   vars
		want   string
		warns  []string // begin with
	}{
		{"nothing", vars{}, "off", nil},
		{"empty", vars{general: "", traces: "", "OTEL_TRACES_EXPORTER": ""}, "off", nil},
		{"blank", vars{general: " ", traces: "\t", "OTEL_TRACES_EXPORTER": " "}, "off", nil},
		{"an endpoint", with(), there + on, nil},
		{"one with blanks around", vars{general: "  http://c:4318 "}, there + on, nil},
		{"one with a path", vars{general: "https://c/otlp/"}, "otlp http/protobuf https://c/otlp/v1/traces" + on, nil},
		{"the signal's own alone", vars{traces: "http://t:1/x"}, "otlp http/protobuf http://t:1/x" + on, nil},
		{"the signal's own counts", with(traces, "http://t:1/x"), "otlp http/protobuf http://t:1/x" + on, nil},
		{"a blank one of the signal does not count", with(traces, " "), there + on, nil},
		{"IPv6", vars{general: "http://[::1]:4318"}, "otlp http/protobuf http://[::1]:4318/v1/traces" + on, nil},
		{"IPv6 without a scheme", vars{general: "[::1]:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp grpc http://[::1]:4317" + on, []string{general}},
		{"no scheme", vars{general: "c:4318"}, there + on, []string{general}},
		{"no scheme and no port", vars{general: "collector"}, "otlp http/protobuf http://collector/v1/traces" + on, []string{general}},
		{"no scheme, and not insecure", vars{general: "c:4318", "OTEL_EXPORTER_OTLP_INSECURE": "false"}, "otlp http/protobuf https://c:4318/v1/traces" + on, []string{general}},
		{"another scheme", vars{general: "ftp://c"}, "off", []string{general}},
		{"no host", vars{general: "http://:4318"}, "off", []string{general}},
		{"no URL", vars{general: "http://user:secret@c:x/%zz"}, "off", []string{general}},
		{"one of the signal that is none sends nowhere else", with(traces, "ftp://c"), "off", []string{traces}},
		{"grpc", with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), "otlp grpc http://c:4318" + on, nil},
		{"GRPC", with("OTEL_EXPORTER_OTLP_PROTOCOL", " GRPC "), "otlp grpc http://c:4318" + on, nil},
		{"http/json", with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"), "otlp http/json http://c:4318/v1/traces" + on, nil},
		{"http/protobuf", with("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"), there + on, nil},
		{"the signal's own protocol", with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"), "otlp http/json http://c:4318/v1/traces" + on, nil},
		{"an unknown protocol", with("OTEL_EXPORTER_OTLP_PROTOCOL", "http"), there + on, []string{"OTEL_EXPORTER_OTLP_PROTOCOL"}},
		{"an unknown one of the signal", with("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "thrift"), "otlp grpc http://c:4318" + on, []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"}},
		{"the exporter alone", vars{"OTEL_TRACES_EXPORTER": "otlp"}, "otlp http/protobuf default" + on, nil},
		{"console", vars{"OTEL_TRACES_EXPORTER": "console"}, "console http/protobuf default" + on, nil},
		{"both", with("OTEL_TRACES_EXPORTER", "console, OTLP,otlp"), "console+" + there + on, nil},
		{"none", with("OTEL_TRACES_EXPORTER", "none"), "off", nil},
		{"None", with("OTEL_TRACES_EXPORTER", "None"), "off", nil},
		{"an unknown exporter", with("OTEL_TRACES_EXPORTER", "zipkin"), there + on, []string{"OTEL_TRACES_EXPORTER"}},
		{"an unknown exporter and no endpoint", vars{"OTEL_TRACES_EXPORTER": "jaeger"}, "off", []string{"OTEL_TRACES_EXPORTER"}},
		{"console goes on without a collector that is meant", vars{"OTEL_TRACES_EXPORTER": "console,otlp", general: "ftp://c"}, "console http/protobuf default" + on, []string{general}},
		{"disabled", with("OTEL_SDK_DISABLED", "true"), "off", nil},
		{"Disabled", with("OTEL_SDK_DISABLED", "TrUe"), "off", nil},
		{"not disabled", with("OTEL_SDK_DISABLED", "FALSE"), there + on, nil},
		{"blank is not disabled", with("OTEL_SDK_DISABLED", " "), there + on, nil},
		{"1 is not true", with("OTEL_SDK_DISABLED", "1"), there + on, []string{"OTEL_SDK_DISABLED"}},
		{"always on", with("OTEL_TRACES_SAMPLER", "always_on"), there + " always_on", nil},
		{"always off", with("OTEL_TRACES_SAMPLER", "always_off"), there + " always_off", nil},
		{"parent based on", with("OTEL_TRACES_SAMPLER", "parentbased_always_on"), there + on, nil},
		{"parent based off", with("OTEL_TRACES_SAMPLER", "parentbased_always_off"), there + " parentbased_always_off", nil},
		{"ratio", with("OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "0.25"), there + " traceidratio 0.25", nil},
		{"parent based ratio", with("OTEL_TRACES_SAMPLER", "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG", " 0 "), there + " parentbased_traceidratio 0", nil},
		{"ratio without argument", with("OTEL_TRACES_SAMPLER", "traceidratio"), there + " traceidratio 1", nil},
		{"an argument that is not used", with("OTEL_TRACES_SAMPLER_ARG", "x"), there + on, nil},
		{"headers", with("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret, x-a = b"), there + on, nil},
		{"headers with a colon", with("OTEL_EXPORTER_OTLP_HEADERS", "Authorization: Bearer secret"), there + on, []string{"OTEL_EXPORTER_OTLP_HEADERS"}},
		{"headers with a bad escape", with("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=%secret"), there + on, []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS"}},
		{"a header without a name", with("OTEL_EXPORTER_OTLP_HEADERS", "=secret"), there + on, []string{"OTEL_EXPORTER_OTLP_HEADERS"}},
		{"a time-out that is none", with("OTEL_EXPORTER_OTLP_TIMEOUT", "abc"), there + on, []string{"OTEL_EXPORTER_OTLP_TIMEOUT"}},
		{"a certificate that is not there", with("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent/secret"), there + on, []string{"OTEL_EXPORTER_OTLP_CERTIFICATE"}},
		{"what is not used is not looked at", vars{"OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer secret"}, "off", nil},
		{"an unknown sampler", with("OTEL_TRACES_SAMPLER", "jaeger_remote"), there + on, []string{"OTEL_TRACES_SAMPLER"}},
	} {
		s := export.Read(tc.vars.lookup)
		if got := short(s); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
		}
		if !slices.EqualFunc(s.Warnings, tc.warns, func(got, want string) bool { return strings.HasPrefix(got, want+": ") }) {
			t.Errorf("%s: warnings %q, want of %q", tc.reason, s.Warnings, tc.warns)
		}
		if text := fmt.Sprint(s.Warnings); strings.Contains(text, "secret") {
			t.Errorf("%s: a warning shows a password: %s", tc.reason, text)
		}
	}
	for _, bad := range []string{"NaN", "Inf", "-Inf", "10", "-0.1", "0,5", "half", "1e400", "1.0000001", "0x", "--1"} {
		s := export.Read(with("OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", bad).lookup)
		if s.Sampler.Ratio != 1 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], fmt.Sprintf("%q", bad)) {
			t.Errorf("ratio %q: %v, warnings %q", bad, s.Sampler.Ratio, s.Warnings)
		}
	}
}

// TestBatchesAreBounded: the SDK makes a channel and a slice of these numbers.
func TestBatchesAreBounded(t *testing.T) {
	for _, name := range []string{"OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT"} {
		byDefault := export.Read(vars{general: "http://c"}.lookup).Batch
		for _, bad := range []string{"-1", "0", "9000000000000000", "1e3", "many"} {
			s := export.Read(vars{general: "http://c", name: bad}.lookup)
			if s.Batch != byDefault || len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], name+": ") {
				t.Errorf("%s=%s: %+v, warnings %q", name, bad, s.Batch, s.Warnings)
			}
		}
		if s := export.Read(vars{general: "http://c", name: " 17 "}.lookup); s.Batch == byDefault || len(s.Warnings) > 0 {
			t.Errorf("%s=17: %+v, warnings %q", name, s.Batch, s.Warnings)
		}
	}
	if b := export.Read(vars{general: "http://c", "OTEL_BSP_MAX_QUEUE_SIZE": "17"}.lookup).Batch; b.Queue != 17 || b.Size != 17 {
		t.Errorf("a small queue: %+v", b)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("http://c", "grpc", "otlp", "traceidratio", "0.5")
	f.Add("[::1]:1", "x", "console,none", "", "NaN")
	f.Fuzz(func(t *testing.T, endpoint, protocol, exporter, sampler, arg string) {
		s := export.Read(vars{general: endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_TRACES_EXPORTER": exporter,
			"OTEL_TRACES_SAMPLER": sampler, "OTEL_TRACES_SAMPLER_ARG": arg}.lookup)
		if r := s.Sampler.Ratio; r < 0 || r > 1 || r != r {
			t.Errorf("ratio %v", r)
		}
		if slices.Contains(s.Exporters, export.OTLP) && s.Endpoint != nil && s.Endpoint.Hostname() == "" {
			t.Errorf("no host in %v", s.Endpoint)
		}
	})
}
