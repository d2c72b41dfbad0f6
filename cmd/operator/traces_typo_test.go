package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestMistypedVariablesOfTraces: each is named, none is quoted, and nothing ends for it. The SDK would say them itself, with
// what they hold, on lines that are no part of the log.
func TestMistypedVariablesOfTraces(t *testing.T) {
	wrong := map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":    "127.0.0.1:1",
		"OTEL_EXPORTER_OTLP_HEADERS":     "Authorization: Bearer s3ntinel-of-the-header",
		"OTEL_EXPORTER_OTLP_CERTIFICATE": "/nonexistent/ca.crt",
		"OTEL_EXPORTER_OTLP_CLIENT_KEY":  "/nonexistent/tls.key",
		"OTEL_EXPORTER_OTLP_TIMEOUT":     "abc",
		"OTEL_BSP_MAX_QUEUE_SIZE":        "9000000000000000",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "-1",
		"OTEL_BSP_SCHEDULE_DELAY":        "-5",
	}
	for name, value := range wrong {
		t.Setenv(name, value)
	}
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			p := startOperator(t, noProviders)
			p.eventually(t, "/v1/proxies", http.StatusOK)
			if err := p.stop(t); err != nil {
				t.Error(err)
			}
			log := p.log.String()
			for name := range wrong {
				if !strings.Contains(log, `"reason":"`+name+": ") {
					t.Errorf("%s is not named", name)
				}
			}
			if strings.Contains(log, "s3ntinel") {
				t.Error("the log shows the header")
			}
		})
	}
}
