package baseimage_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

func TestStalls(t *testing.T) {
	hang := func(kind string, n int32) func(*rig) {
		return func(r *rig) {
			reached := nth(kind, n, errBoom)
			r.pool.before = func(ctx context.Context, call, name string) error {
				if reached(ctx, call, name) == nil {
					return nil
				}
				close(r.reached)
				<-ctx.Done()
				return ctx.Err()
			}
		}
	}
	for _, tc := range []struct {
		reason string
		answer func(*rig, http.ResponseWriter, *http.Request)
		set    func(*rig)
		says   string
		slow   bool // ten minutes instead of one

		received int64
	}{
		{"no answer", func(_ *rig, _ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }, nil, "server does not answer", false, 0},
		{"no more of it", func(r *rig, w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)))
			_, _ = w.Write(r.data[:len(r.data)/2])
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		}, nil, "has stopped sending", false, 98560},
		{"no more of its header", func(r *rig, w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(r.data)))
			_, _ = w.Write(r.data[:10])
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		}, nil, "has stopped sending", false, 10},
		{"no connection", nil, hang("open", 1), "host cannot be reached", false, 0},
		{"no list", nil, hang("volumes", 1), "pool does not answer", false, 0},
		{"no second list", nil, hang("volumes", 2), "pool does not answer", false, 0},
		{"no volume", nil, hang("create", 1), "does not finish creating", true, 0},
		{"no upload", nil, hang("write", 2), "host has stopped taking", false, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var r *rig
			var handler http.HandlerFunc
			if tc.answer != nil {
				handler = func(w http.ResponseWriter, q *http.Request) { tc.answer(r, w, q) }
			}
			r = newRig(t, handler)
			if tc.set != nil {
				tc.set(r)
			}
			r.prepare()
			eventually(t, "it to hang", func() bool {
				select {
				case <-r.reached:
					return true
				default:
					return r.hits.Load() > 0 && tc.answer != nil && r.cache.Received(r.image) == tc.received
				}
			})
			step, limit := time.Minute, 6
			if tc.slow {
				step = 9 * time.Minute
			}
			steps := r.pass(step, limit)
			if tc.slow && steps < 2 {
				t.Error("it was given no time")
			}
			r.failed(provider.ErrTransient, tc.says)
			if r.pool.before = nil; r.cache.Received(r.image) >= 0 {
				t.Error("it still runs")
			}
		})
	}
}

// A host that writes everything to its disk in the end takes longer than one that takes the next bytes.
func TestTheEndOfAnUploadMayTakeLong(t *testing.T) {
	r := newRig(t, nil)
	reached, gate := make(chan struct{}), make(chan struct{})
	r.pool.after = func(ctx context.Context, call, _ string) error {
		if call == "upload" && r.cache.Received(r.image) == int64(len(r.data)) {
			close(reached)
			select {
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	r.prepare()
	<-reached
	r.clock.Step(5 * time.Minute)
	for range 10 { // let the watch look
		<-time.After(5 * time.Millisecond)
	}
	close(gate)
	r.cache.Wait()
	r.found()
}

// A server that sends a byte now and then keeps no download alive for ever.
func TestASlowLoris(t *testing.T) {
	next := make(chan struct{})
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(r.data)))
		for i := range r.data {
			select {
			case <-next:
			case <-q.Context().Done():
				return
			}
			_, _ = w.Write(r.data[i : i+1])
			w.(http.Flusher).Flush()
		}
	})
	r.prepare()
	began := r.clock.Now()
	for sent := int64(1); ; sent++ {
		next <- struct{}{}
		eventually(t, "the byte", func() bool { got := r.cache.Received(r.image); return got == sent || got < 0 })
		if r.clock.Since(began) < baseimage.Whole-time.Minute {
			if r.cache.Received(r.image) < 0 {
				t.Fatalf("it ended after %s", r.clock.Since(began))
			}
			r.clock.Step(59 * time.Second)
			continue
		}
		r.pass(59*time.Second, 3)
		break
	}
	r.failed(provider.ErrTransient, "the download takes too long")
}
