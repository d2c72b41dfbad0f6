package discovery

import (
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// manyFiles skips the test where so many files may not be open; Go has raised the limit as far as it may.
func manyFiles(t *testing.T, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < n {
		t.Skipf("only %d files may be open, this test needs %d: raise the hard limit (ulimit -Hn)", limit.Cur, n)
	}
}

// Many honest clients that connect at one moment are slower than few, but all of them are served.
func TestASuddenCrowdIsServed(t *testing.T) {
	const size = 2000
	manyFiles(t, size+200)
	f := newFixture(t)
	f.put("a")
	disperse := gather(t, f, "sudden", size, request("GET", "/v1/proxies/ns/a"))
	if served := disperse(); served != size {
		t.Errorf("%d of %d were served", served, size)
	}
}

// More connections than there are places for, with and without a token: they cost no more than is known beforehand,
// others are served beside them, and all of them end with the server.
func TestMoreConnectionsThanPlaces(t *testing.T) {
	const size = 5000
	manyFiles(t, size+200)
	for name, tc := range map[string]struct {
		text string
		most int // MiB
	}{
		"half headers": {"GET /v1/proxies HTTP/1.1\r\nHost:", 16},
		"with a token": {request("GET", "/v1/proxies/ns/a"), 128},
	} {
		t.Run(name, func(t *testing.T) {
			// No connection ends because of its own age.
			f := newFixture(t, func(o *Options) { o.ReadHeaderTimeout, o.IdleTimeout = time.Minute, time.Minute })
			f.put("a")
			before := memory()
			disperse := gather(t, f, "patient", size, tc.text)
			var good sync.WaitGroup
			for range 4 {
				good.Go(func() {
					if err := leaseAlone(f); err != nil {
						t.Error(err)
					}
				})
			}
			good.Wait()
			cost := (settled() - before) >> 20
			t.Logf("%d connections cost %d MiB", size, cost)
			if cost > tc.most {
				t.Errorf("%d connections cost %d MiB, want at most %d", size, cost, tc.most)
			}
			f.want(t, http.StatusOK, http.MethodGet, "/v1/proxies", "")
			f.stop()
			start := time.Now()
			if err := f.wait(); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took > DefaultShutdownTimeout+5*time.Second {
				t.Errorf("the end took %s", took)
			}
			if closed := disperse(); closed != size {
				t.Errorf("%d of %d connections were closed", closed, size)
			}
		})
	}
}
