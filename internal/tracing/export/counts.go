package export

import (
	"context"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Counts tell what became of spans. The zero value is ready for use; reading it does not block.
type Counts struct{ sent, refused, dropped atomic.Uint64 }

// Sent returns how many spans a collector has taken.
func (c *Counts) Sent() uint64 { return c.sent.Load() }

// Refused returns how many were in batches that could not be sent, or that no collector has taken.
func (c *Counts) Refused() uint64 { return c.refused.Load() }

// Dropped returns how many there was no room for, because they came faster than they could be sent.
func (c *Counts) Dropped() uint64 { return c.dropped.Load() }

// counted is an exporter whose spans are counted.
type counted struct {
	sdktrace.SpanExporter
	c *Counts
	q *queue // of what is handed in, nil where nothing waits
}

// ExportSpans implements sdktrace.SpanExporter.
func (e counted) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if e.q != nil {
		e.q.waiting.Add(-int64(len(spans)))
	}
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if n := uint64(len(spans)); err != nil {
		e.c.refused.Add(n)
	} else {
		e.c.sent.Add(n)
	}
	return err
}

// queue is a batch processor that does not drop in silence: it takes no more than the SDK's queue holds, so that it is here that
// a span is dropped, and counted.
type queue struct {
	sdktrace.SpanProcessor
	size    int64
	waiting atomic.Int64
	c       *Counts
	full    func()
}

// OnEnd implements sdktrace.SpanProcessor. It does not block.
func (q *queue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.size {
		q.waiting.Add(-1)
		q.c.dropped.Add(1)
		q.full()
		return
	}
	q.SpanProcessor.OnEnd(s)
}
