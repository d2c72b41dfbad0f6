package baseimage_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
)

func TestAnImageIsDownloadedOnce(t *testing.T) {
	for name, set := range map[string]func(*rig){
		"qcow2":                  func(*rig) {},
		"checksum in upper case": func(r *rig) { r.image.SHA256 = strings.ToUpper(r.image.SHA256) },
		"raw": func(r *rig) {
			r.data = make([]byte, 300<<10)
			r.data[5], r.image.SHA256, r.image.Format = 1, sum(r.data), baseimage.Raw
			r.image.SHA256 = sum(r.data)
		},
		"raw, tiny": func(r *rig) {
			r.data = []byte(strings.Repeat("x", 512))
			r.image.SHA256, r.image.Format = sum(r.data), baseimage.Raw
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			set(r)
			if _, ok := r.find(); ok {
				t.Fatal("it is there before")
			}
			r.download()
			base := r.found()
			want := int64(virtual)
			if r.image.Format == baseimage.Raw {
				want = int64(len(r.data))
			}
			if base.Format != r.image.Format || base.VirtualSize != want {
				t.Errorf("%+v, want %d bytes", base, want)
			}
			data, marker := r.pool.volumes[base.Volume], r.pool.volumes[base.Volume+ready]
			if n := int64(len(r.data)); data.capacity != n || data.allocation != n || marker.capacity != want || marker.allocation != 0 {
				t.Errorf("data %d/%d, marker %d/%d", data.capacity, data.allocation, marker.capacity, marker.allocation)
			}
			// Other processes know it, and nobody asks the server again.
			r.cache = r.process(r.pool)
			if other := r.found(); other != base {
				t.Errorf("then it is %+v", other)
			}
			r.download()
			if got := r.hits.Load(); got != 1 || len(r.pool.names()) != 2 {
				t.Errorf("%d downloads, volumes %q", got, r.pool.names())
			}
		})
	}
}

func TestManyWaitForOneDownload(t *testing.T) {
	gate := make(chan struct{})
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		<-gate
		r.serve(w, r.data)
	})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			img := r.image
			img.SHA256 = strings.ToUpper(img.SHA256)
			for _, i := range []baseimage.Image{r.image, img} {
				if _, ok := errors.AsType[*baseimage.Progress](r.cache.Prepare(t.Context(), i)); !ok {
					t.Error("no progress")
				}
			}
		})
	}
	wg.Wait()
	close(gate)
	r.cache.Wait()
	r.found()
	if got := r.hits.Load(); got != 1 {
		t.Errorf("%d downloads", got)
	}
}

func TestProgress(t *testing.T) {
	gate := make(chan int)
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000448")
		for n := range gate {
			_, _ = w.Write(r.data[:n])
			w.(http.Flusher).Flush()
			r.data = r.data[n:]
		}
	})
	r.data = make([]byte, 1000448)
	r.image.Format, r.image.SHA256 = baseimage.Raw, sum(r.data)
	r.prepare()
	sent := int64(0)
	for _, tc := range []struct {
		n, percent int
		says       string
	}{{99000, 0, "0 %"}, {2000, 10, "10 %"}, {800000, 90, "90 %"}, {99447, 90, "90 %"}} {
		gate <- tc.n
		sent += int64(tc.n)
		eventually(t, "the bytes", func() bool { return r.cache.Received(r.image) == sent })
		err := r.cache.Prepare(t.Context(), r.image)
		p, ok := errors.AsType[*baseimage.Progress](err)
		if !ok || p.Percent != tc.percent || err.Error() != `image "debian" is being downloaded, `+tc.says+" so far" || !errors.Is(err, provider.ErrTransient) {
			t.Errorf("after %d bytes: %v", sent, err)
		}
	}
	gate <- 1
	close(gate)
	r.cache.Wait()
	if _, ok := r.find(); !ok {
		t.Error("it is not there")
	}
}

func TestWhatCounts(t *testing.T) {
	r := newRig(t, nil)
	now := r.clock.Now()
	a, b, c := r.dataName(now, "00000001"), r.dataName(now, "00000002"), r.dataName(now.Add(-time.Hour), "ffffffff")
	for _, tc := range []struct {
		reason  string
		volumes []string
		want    string
	}{
		{"nothing", nil, ""},
		{"data alone", []string{a}, ""},
		{"a marker alone", []string{a + ready}, ""},
		{"another's marker", []string{a, b + ready}, ""},
		{"both", []string{a, a + ready}, a},
		{"the first of two", []string{b, b + ready, a, a + ready}, a},
		{"the first with a marker", []string{a, b, b + ready}, b},
		{"the first with data", []string{a + ready, b, b + ready}, b},
		{"the earlier start", []string{a, a + ready, c, c + ready}, c},
		{"another checksum", []string{strings.Replace(a, r.image.SHA256, sum(nil), 1), strings.Replace(a+ready, r.image.SHA256, sum(nil), 1)}, ""},
		{"another format", []string{strings.Replace(a, "qcow2", "raw", 1), strings.Replace(a+ready, "qcow2", "raw", 1)}, ""},
		{"another prefix", []string{"x" + a, "x" + a + ready}, ""},
		{"almost", []string{a + "x", a + "x" + ready}, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			r.pool = newPool(t)
			for i, name := range tc.volumes {
				r.pool.put(name, int64(i+7))
			}
			base, ok := r.find()
			if base.Volume != tc.want || ok != (tc.want != "") || ok && base.VirtualSize != r.pool.volumes[tc.want+ready].capacity {
				t.Errorf("%+v, want %q", base, tc.want)
			}
		})
	}
	r.pool = newPool(t)
	r.pool.put(a, 5)
	r.pool.put(a+ready, 0)
	if base, ok := r.find(); ok {
		t.Errorf("without a size: %+v", base)
	}
}

func TestImagesThatCannotBe(t *testing.T) {
	r := newRig(t, nil)
	good := r.image
	for reason, set := range map[string]func(*baseimage.Image){
		"64 hexadecimal digits": func(i *baseimage.Image) { i.SHA256 = "abc" },
		"neither qcow2 nor raw": func(i *baseimage.Image) { i.Format = "vmdk" },
	} {
		img := good
		set(&img)
		_, _, err := r.cache.Find(t.Context(), r.pool, img)
		for _, err := range []error{err, r.cache.Prepare(t.Context(), img)} {
			if !errors.Is(err, provider.ErrPermanent) || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), `"debian"`) {
				t.Errorf("%v, want %s", err, reason)
			}
		}
	}
	for _, url := range []string{"", "/x", "file:///etc/passwd", "ftp://host/x", "http://user:secret/x@host/", "http://h/%zz?secret"} {
		img := good
		img.URL = url
		if err := r.cache.Prepare(t.Context(), img); !errors.Is(err, provider.ErrPermanent) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if r.pool.count("volumes") > 2 {
		t.Error("the pool was asked")
	}
}

func TestErrorsOfFindAreTheStores(t *testing.T) {
	r := newRig(t, nil)
	r.pool.before = nth("volumes", 1, errBoom)
	if _, _, err := r.cache.Find(t.Context(), r.pool, r.image); !errors.Is(err, errBoom) {
		t.Error(err)
	}
}

// Two formats of one checksum are two images: what was verified as one is not the other.
func TestAFormatBelongsToTheImage(t *testing.T) {
	r := newRig(t, nil)
	r.download()
	r.found()
	r.image.Format = baseimage.Raw
	r.download()
	r.failure(provider.ErrPermanent, "qcow2 image, not a raw one")
}

func TestSlotsAreShared(t *testing.T) {
	gate := make(chan struct{})
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		<-gate
		r.serve(w, r.data)
	})
	slots := make(chan struct{}, 1)
	shared := func(o *baseimage.Options) { o.Slots = slots }
	second := newPool(t)
	caches := []*baseimage.Cache{r.process(r.pool, shared), r.process(second, shared)}
	for _, c := range caches {
		_ = c.Prepare(t.Context(), r.image)
	}
	eventually(t, "one download", func() bool { return r.hits.Load() == 1 })
	eventually(t, "both looked for the image", func() bool { return r.pool.count("volumes") == 1 && second.count("volumes") == 1 })
	if r.hits.Load() != 1 {
		t.Error("both run")
	}
	close(gate)
	for _, c := range caches {
		c.Wait()
	}
	if len(r.pool.names()) != 2 || len(second.names()) != 2 || len(slots) != 0 {
		t.Errorf("%q, %q, %d slots in use", r.pool.names(), second.names(), len(slots))
	}
	// Whoever waits for one gives up when told to.
	slots <- struct{}{}
	third := newPool(t)
	c := r.process(third, shared)
	_ = c.Prepare(t.Context(), r.image)
	c.Close()
	if third.count("create") != 0 {
		t.Error("it ran without a slot")
	}
}

// A pool that hangs holds up its own host and no other.
func TestAPoolThatHangsHoldsNoSlot(t *testing.T) {
	r := newRig(t, nil)
	slots := make(chan struct{}, 1)
	shared := func(o *baseimage.Options) { o.Slots = slots }
	hangs := make(chan struct{})
	r.pool.before = func(ctx context.Context, call, _ string) error {
		if call != "create" {
			return nil
		}
		close(hangs)
		<-ctx.Done()
		return ctx.Err()
	}
	healthy := newPool(t)
	first, second := r.process(r.pool, shared), r.process(healthy, shared)
	_ = first.Prepare(t.Context(), r.image)
	<-hangs
	_ = second.Prepare(t.Context(), r.image)
	second.Wait()
	if len(healthy.names()) != 2 {
		t.Errorf("the other host has %q", healthy.names())
	}
	first.Close()
	if len(slots) != 0 {
		t.Errorf("%d slots are in use", len(slots))
	}
}

func TestCloseDuringADownload(t *testing.T) {
	for _, closing := range []bool{true, false} {
		more := make(chan struct{})
		r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Length", "1048576")
			_, _ = w.Write(make([]byte, 1<<18))
			w.(http.Flusher).Flush()
			select {
			case <-more:
				_, _ = w.Write(make([]byte, 1<<18))
				w.(http.Flusher).Flush()
			case <-q.Context().Done():
			}
			<-q.Context().Done()
		})
		r.image.Format = baseimage.Raw
		r.prepare()
		eventually(t, "bytes in the pool", func() bool { return r.cache.Received(r.image) == 1<<18 && len(r.pool.names()) == 1 })
		if closing {
			r.cache.Close()
			r.cache.Close()
		} else {
			other := r.image
			other.URL += "x"
			r.cache.Drop(other)
			close(more)
			eventually(t, "it to go on, since another URL was dropped", func() bool { return r.cache.Received(r.image) == 1<<19 })
			r.cache.Drop(r.image)
			r.cache.Wait()
		}
		if left := r.pool.names(); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
		err := r.cache.Prepare(t.Context(), r.image)
		if _, ok := errors.AsType[*baseimage.Progress](err); ok == closing {
			t.Errorf("closed %v: %v", closing, err)
		}
		if _, ok := r.find(); ok {
			t.Error("it is there")
		}
		r.cache.Close()
	}
}

func TestDropForgetsAFailure(t *testing.T) {
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, _ *http.Request) {
		if r.hits.Load() == 1 {
			http.NotFound(w, nil)
			return
		}
		r.serve(w, r.data)
	})
	r.download()
	r.failed(provider.ErrPermanent)
	r.cache.Drop(r.image)
	r.cache.Drop(baseimage.Image{})
	r.download()
	r.found()
}

// A URL that fails is no reason not to try another.
func TestAnotherURL(t *testing.T) {
	var r *rig
	r = newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path != "/good" {
			http.NotFound(w, nil)
			return
		}
		r.serve(w, r.data)
	})
	r.download()
	r.failed(provider.ErrPermanent)
	r.image.URL = r.server.URL + "/good"
	r.download()
	r.found()
}

func TestPrepareNeverBlocks(t *testing.T) {
	r := newRig(t, nil)
	gate := make(chan struct{})
	r.pool.before = func(ctx context.Context, call, _ string) error {
		if call == "open" {
			<-gate
		}
		return ctx.Err()
	}
	began := time.Now()
	for range 3 {
		r.prepare()
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %s", took)
	}
	close(gate)
	r.cache.Wait()
	r.found()
	if !slices.Contains(r.pool.calls, "create marker") {
		t.Error("no marker")
	}
}
