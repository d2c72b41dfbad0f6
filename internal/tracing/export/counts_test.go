package export_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/export"
	"github.com/egress-proxies/egress-proxies-operator/internal/tracing/otlptest"
)

// TestEverySpanIsAccountedFor: it is sent, refused or dropped, and why is said once, in no words of the collector's.
func TestEverySpanIsAccountedFor(t *testing.T) {
	const batches, each = 50, 2 // a span and one below
	answer := func(status int) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "the s3cret words of a collector", status)
		}))
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	stuck := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	t.Cleanup(func() { close(stuck); hanging.Close() })
	r := otlptest.New(t)
	for reason, tc := range map[string]struct {
		endpoint, queue   string
		sent, refused     uint64
		dropped           bool
		says              string
		protocol, timeout string
	}{
		"taken":       {endpoint: "http://" + r.HTTP, sent: batches * each},
		"bad request": {endpoint: "http://" + answer(http.StatusBadRequest), refused: batches * each, says: `"reason"="HTTP 400"`},
		"no rights":   {endpoint: "http://" + answer(http.StatusForbidden), refused: batches * each, says: `"reason"="HTTP 403"`},
		"nobody":      {endpoint: "http://" + nobody, refused: batches * each, says: `"reason"="connection refused"`},
		"nobody, by gRPC": {
			endpoint: "http://" + nobody, refused: batches * each, says: `"reason"="gRPC `, protocol: export.GRPC, timeout: "500",
		},
		"not trusted": {endpoint: "https://" + secure.Listener.Addr().String(), refused: batches * each, says: `"reason"="its certificate is not accepted"`},
		"slow":        {endpoint: "http://" + hanging.Listener.Addr().String(), queue: "10", dropped: true, says: "come faster"},
	} {
		t.Run(reason, func(t *testing.T) {
			var counts export.Counts
			l := &lines{}
			v := map[string]string{
				"OTEL_EXPORTER_OTLP_ENDPOINT": tc.endpoint, "OTEL_BSP_MAX_QUEUE_SIZE": tc.queue, "OTEL_BSP_SCHEDULE_DELAY": "50",
				"OTEL_EXPORTER_OTLP_PROTOCOL": tc.protocol, "OTEL_EXPORTER_OTLP_TIMEOUT": tc.timeout,
			}
			stop := startCounted(t, l, &bytes.Buffer{}, v, &counts)
			for range batches {
				span(t, "work")
			}
			stop()
			sent, refused, dropped := counts.Sent(), counts.Refused(), counts.Dropped()
			t.Logf("%d sent, %d refused, %d dropped", sent, refused, dropped)
			if tc.dropped {
				// At most ten wait, and as many are being sent.
				if dropped < batches*each-20 || sent > 0 {
					t.Errorf("%d sent, %d dropped", sent, dropped)
				}
			} else if sent != tc.sent || refused != tc.refused || dropped != 0 {
				t.Errorf("%d sent, %d refused, %d dropped, want %d and %d and none", sent, refused, dropped, tc.sent, tc.refused)
			}
			log := l.String()
			if n := strings.Count(log, "tracing: spans are"); tc.says == "" && n > 0 || tc.says != "" && (n < 1 || !strings.Contains(log, tc.says)) {
				t.Errorf("log, want %q:\n%s", tc.says, log)
			}
			if strings.Contains(log, "s3cret") {
				t.Errorf("the collector's words are in the log:\n%s", log)
			}
		})
	}
}

// TestRoomInTheQueueComesBack: what was dropped takes none for ever.
func TestRoomInTheQueueComesBack(t *testing.T) {
	r := otlptest.New(t)
	var counts export.Counts
	l := &lines{}
	stop := startCounted(t, l, &bytes.Buffer{}, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + r.HTTP, "OTEL_BSP_MAX_QUEUE_SIZE": "4", "OTEL_BSP_SCHEDULE_DELAY": "10",
	}, &counts)
	for deadline := time.Now().Add(30 * time.Second); counts.Sent() < 100 && time.Now().Before(deadline); {
		span(t, "work")
	}
	if counts.Sent() < 100 {
		t.Errorf("%d sent, %d dropped, %d refused: the queue of 4 stays full", counts.Sent(), counts.Dropped(), counts.Refused())
	}
	stop()
}
