package export

import (
	"strconv"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Batch is how spans wait until they are sent. The SDK would take its variables as they stand, and panic with some.
type Batch struct {
	// Queue is how many spans wait at most, Size how many are sent at one time.
	Queue, Size int
	// Delay is for how long spans wait at most, Timeout how long sending them may take.
	Delay, Timeout time.Duration
}

const (
	varQueue        = "OTEL_BSP_MAX_QUEUE_SIZE"
	varBatch        = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	varDelay        = "OTEL_BSP_SCHEDULE_DELAY"
	varBatchTimeout = "OTEL_BSP_EXPORT_TIMEOUT"

	// maxQueue spans are about 100 MB.
	maxQueue = 1 << 16
	hour     = int(time.Hour / time.Millisecond)
)

// batch reads the variables; the defaults are OpenTelemetry's.
func (r *reader) batch() Batch {
	b := Batch{Queue: r.number(varQueue, sdktrace.DefaultMaxQueueSize, maxQueue)}
	b.Size = min(r.number(varBatch, sdktrace.DefaultMaxExportBatchSize, maxQueue), b.Queue)
	b.Delay = time.Duration(r.number(varDelay, sdktrace.DefaultScheduleDelay, hour)) * time.Millisecond
	b.Timeout = time.Duration(r.number(varBatchTimeout, sdktrace.DefaultExportTimeout, hour)) * time.Millisecond
	return b
}

// queue has spans wait to be sent by e. full is called with each that there is no room for; it must not block.
func (b Batch) queue(e sdktrace.SpanExporter, c *Counts, full func()) sdktrace.SpanProcessor {
	q := &queue{size: int64(b.Queue), c: c, full: full}
	q.SpanProcessor = sdktrace.NewBatchSpanProcessor(counted{e, c, q}, sdktrace.WithMaxQueueSize(b.Queue),
		sdktrace.WithMaxExportBatchSize(b.Size), sdktrace.WithBatchTimeout(b.Delay), sdktrace.WithExportTimeout(b.Timeout))
	return q
}

// number returns the variable's value if it is from 1 to most.
func (r *reader) number(name string, byDefault, most int) int {
	v := r.get(name)
	if v == "" {
		return byDefault
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		r.warn(name, "want a number from 1 to %d; taken for %d", most, byDefault)
		return byDefault
	}
	return n
}
