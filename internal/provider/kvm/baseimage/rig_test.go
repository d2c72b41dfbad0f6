package baseimage_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

// rig is one operator process, one host and one web server.
type rig struct {
	*testing.T
	clock  *testingclock.FakeClock
	pool   *pool
	cache  *baseimage.Cache
	server *httptest.Server
	hits   atomic.Int32
	// reached is closed when the pool hangs.
	reached chan struct{}
	image   baseimage.Image
	data    []byte
}

const virtual = 1 << 30

// newRig serves a qcow2 image by handler, or properly.
func newRig(t *testing.T, handler http.HandlerFunc, settings ...func(*baseimage.Options)) *rig {
	t.Helper()
	r := &rig{T: t, clock: testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)), pool: newPool(t), reached: make(chan struct{}), data: qcow2(virtual)}
	if handler == nil {
		handler = func(w http.ResponseWriter, _ *http.Request) { r.serve(w, r.data) }
	}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.hits.Add(1)
		handler(w, q)
	}))
	t.Cleanup(r.server.Close)
	r.image = baseimage.Image{Name: "debian", URL: r.server.URL + "/debian.qcow2", SHA256: sum(r.data), Format: baseimage.QCOW2}
	r.cache = r.process(r.pool, settings...)
	return r
}

// process returns a cache on a pool, as another operator process would have it.
func (r *rig) process(p *pool, settings ...func(*baseimage.Options)) *baseimage.Cache {
	opts := baseimage.Options{Host: "host1", Clock: r.clock, Open: p.connect}
	for _, s := range settings {
		s(&opts)
	}
	c := baseimage.New(opts)
	r.Cleanup(func() {
		c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open != 0 {
			r.Errorf("%d connections are still open", p.open)
		}
	})
	return c
}

func (r *rig) serve(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}

// prepare asks, and wants it to be under way.
func (r *rig) prepare() {
	r.Helper()
	err := r.cache.Prepare(r.Context(), r.image)
	if _, ok := errors.AsType[*baseimage.Progress](err); !ok {
		r.Fatalf("it says %v, want a download to begin", err)
	}
}

// download lets one end.
func (r *rig) download() {
	r.Helper()
	r.prepare()
	r.cache.Wait()
}

func (r *rig) find() (baseimage.Base, bool) {
	r.Helper()
	base, ok, err := r.cache.Find(r.Context(), r.pool, r.image)
	if err != nil {
		r.Fatal(err)
	}
	return base, ok
}

// found wants the image to be there, whole.
func (r *rig) found() baseimage.Base {
	r.Helper()
	base, ok := r.find()
	if !ok {
		r.Fatalf("the image is not there; %v; volumes %q", r.cache.Prepare(r.Context(), r.image), r.pool.names())
	}
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	if v := r.pool.volumes[base.Volume]; v == nil || sum(v.data) != strings.ToLower(r.image.SHA256) {
		r.Errorf("volume %q is not the image", base.Volume)
	}
	return base
}

// failed wants the last download to have failed like this, and left no volume.
func (r *rig) failed(class error, says ...string) *baseimage.Failure {
	r.Helper()
	f := r.failure(class, says...)
	if left := r.pool.names(); len(left) > 0 {
		r.Errorf("it left %q", left)
	}
	return f
}

func (r *rig) failure(class error, says ...string) *baseimage.Failure {
	r.Helper()
	err := r.cache.Prepare(r.Context(), r.image)
	f, ok := errors.AsType[*baseimage.Failure](err)
	if !ok || !errors.Is(err, class) || f.Class != class {
		r.Fatalf("it says %v (%T), want %v", err, err, class)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			r.Errorf("%q does not say %q", err, s)
		}
	}
	if again := r.cache.Prepare(r.Context(), r.image); again == nil || again.Error() != err.Error() {
		r.Errorf("it first says %v and then %v", err, again)
	}
	if _, ok := r.find(); ok {
		r.Error("the image is there all the same")
	}
	return f
}

// pass steps the clock until the download has ended, and reports in how many steps.
func (r *rig) pass(step time.Duration, limit int) int {
	r.Helper()
	for i := range limit {
		r.clock.Step(step)
		for range 20 {
			if r.cache.Received(r.image) < 0 {
				r.cache.Wait()
				return i + 1
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	r.Fatal("the download does not end")
	return 0
}

// later steps over any backoff.
func (r *rig) later() { r.clock.Step(30 * time.Minute) }

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// dataName is how another process would call its data.
func (r *rig) dataName(start time.Time, random string) string {
	return fmt.Sprintf("epx-base-%s.%012d.%s.%s", strings.ToLower(r.image.SHA256), start.Unix(), random, r.image.Format)
}

var errBoom = errors.New("boom")

// once fails the n-th call of a kind, counted from 1.
func nth(kind string, n int32, err error) func(context.Context, string, string) error {
	var seen atomic.Int32
	return func(_ context.Context, call, _ string) error {
		if call == kind && seen.Add(1) == n {
			return err
		}
		return nil
	}
}

func quota(text string) error { return fmt.Errorf("%s: %w", text, provider.ErrQuotaExceeded) }
