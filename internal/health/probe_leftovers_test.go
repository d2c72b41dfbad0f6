package health

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
)

// Probes of every kind, sound and broken at every stage, leave neither goroutines nor descriptors.
func TestManyProbesLeaveNothing(t *testing.T) {
	const probes, sideBySide = 2000, 100
	address, ca := tlsOrigin(t, status(204))
	// Larger than what is read of it; an endless one would keep this machine busy with filling buffers.
	large := func(text string) func(net.Conn) {
		return func(c net.Conn) { _, _ = io.WriteString(c, text+strings.Repeat("a", 128<<10)); swallow(c) }
	}
	largeAddress, largeCA := tlsOrigin(t, raw(large("HTTP/1.1 200 OK\r\n\r\n")))
	closed := serve(t, swallow)
	closed.Host, closed.Port = "127.0.0.1", 1
	const tlsURL, plainURL = "https://example.com/", "http://target.test/"
	kinds := []struct {
		proxy   func(net.Conn)
		url     string
		ca      []byte
		timeout time.Duration
		ok      bool
	}{
		{tunnels(established, address), tlsURL, ca, enough, true},
		{tunnels(established, address), tlsURL, nil, enough, false},
		{tunnels(established, largeAddress), tlsURL, largeCA, enough, true},
		{says("HTTP/1.1 204 No Content\r\n\r\n"), plainURL, nil, enough, true},
		{answers("503"), tlsURL, nil, enough, false},
		{answers("407"), plainURL, nil, enough, false},
		{func(c net.Conn) { head(c); reset(c) }, tlsURL, nil, enough, false},
		{swallow, tlsURL, nil, short, false},
		{opens(swallow), tlsURL, nil, short, false},
		{func(c net.Conn) { head(c); drips(c, "HTTP/1.1 200 OK\r\n\r\n") }, plainURL, nil, short, false},
		{nil, tlsURL, nil, enough, false}, // nobody listens
		{opens(large("")), tlsURL, nil, enough, false},
	}
	targets := make([]Target, len(kinds))
	for i, k := range kinds {
		targets[i] = Target{Endpoint: closed, Probe: v1alpha1.Probe{URL: k.url, Timeout: k.timeout, CABundle: k.ca}}
		if k.proxy != nil {
			targets[i].Endpoint = serve(t, k.proxy)
		}
	}
	p := NewProber(ProberOptions{})
	run := func(n int) {
		var wg sync.WaitGroup
		places := make(chan struct{}, sideBySide)
		for i := range n {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				k := i % len(kinds)
				if i%50 == 0 {
					cancel() // the operator ends
				}
				if r := p.Probe(ctx, targets[k]); r.OK != kinds[k].ok && !r.Inconclusive {
					t.Errorf("kind %d: %+v", k, r)
				}
			})
		}
		wg.Wait()
	}
	run(2 * len(kinds))
	goroutines, descriptors := goleak.IgnoreCurrent(), openDescriptors()
	begin := time.Now()
	run(probes - sideBySide)
	// The garbage collector closes what was forgotten: not while we look.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	run(sideBySide)
	t.Logf("%d probes in %v; descriptors before: %d, right after: %d", probes, time.Since(begin), descriptors, openDescriptors())
	if err := goleak.Find(goroutines); err != nil {
		t.Error(err)
	}
	waitFor(t, func() bool { return openDescriptors() <= descriptors })
}

// openDescriptors is always 0 where there is no /proc. Pipes are left out: the runtime keeps those through which the test's
// own proxies copy.
func openDescriptors() (n int) {
	const dir = "/proc/self/fd"
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && !strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}
