package kvm_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// A domain that is held up is no reason to take its host for silent: others on it would have to wait.
func TestADomainThatIsStuck(t *testing.T) {
	for _, tc := range []struct {
		op, call string
		left     time.Duration // until the caller's own deadline
	}{
		{"delete", "DomainDestroyFlags", time.Minute},
		{"delete", "DomainDestroyFlags", 12 * time.Second},
		{"delete", "DomainUndefineFlags", time.Minute},
		{"create", "DomainCreateWithFlags", time.Minute},
	} {
		w := newT(t)
		synctest.Test(t, func(t *testing.T) {
			w.t = providertest.Go(t)
			p := w.onlyA()
			req := w.request()
			ref := w.ref(req, 1)
			if tc.op == "delete" {
				req, ref = w.made(p)
			}
			free := make(chan struct{})
			w.wires[hostA].Add(libvirttest.On(tc.call), func(_ string, do func() error) error { <-free; return do() })
			ctx, cancel := context.WithTimeout(t.Context(), tc.left)
			defer cancel()
			var err error
			if tc.op == "delete" {
				err = p.Delete(ctx, ref)
			} else {
				err = p.Create(ctx, req, ref)
			}
			expect(t, tc.call, err, provider.ErrTransient, "", tc.call, "held up")
			if ctx.Err() != nil {
				t.Errorf("%s: the caller's time was used up", tc.call)
			}
			close(free)
			synctest.Wait()
		})
	}
}

// A disk is never smaller than its base image, whatever the machine type says, so that is what has to fit.
func TestRoomForALargeImage(t *testing.T) {
	const gib = 1 << 30
	w := newT(t)
	d := w.daemons[hostA]
	for _, v := range d.Volumes() {
		if strings.HasSuffix(v, ".ready") {
			d.RemoveVolume(v)
			d.AddVolume(v, 20*gib) // a marker's capacity is the image's virtual size
		}
	}
	p := w.provider()
	d.SetRoom(16<<20, 20*gib-1)
	_, err := p.Plan(t.Context(), w.request())
	expect(t, "too little", err, provider.ErrQuotaExceeded, "", "host hv-a", "20 GiB")
	d.SetRoom(16<<20, 20*gib)
	_, err = p.Plan(t.Context(), w.request())
	must(w.t, err)
}

// Those who wait for a download ask this process, not the host. One now and then looks whether another process was faster.
func TestTheCostOfWaitingForADownload(t *testing.T) {
	w := newWorld(providertest.Go(t))
	began, stop := make(chan struct{}, 1), make(chan struct{})
	w.server.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	})
	defer close(stop)
	p := w.provider()
	plan := func() (calls []string, err error) {
		req := w.request()
		calls = w.since(func() { _, err = p.Plan(t.Context(), req) })
		return calls, err
	}
	_, err := plan()
	expect(t, "the first", err, provider.ErrTransient, "", "being downloaded")
	<-began
	for range 20 {
		calls, err := plan()
		if expect(t, "those who wait", err, provider.ErrTransient, "", "being downloaded"); len(calls) > 0 {
			t.Fatalf("one of those who wait has made calls: %v", calls)
		}
	}
	w.clock.Step(10 * time.Second)
	if calls, _ := plan(); !slices.Contains(calls, "StoragePoolListAllVolumes") {
		t.Errorf("after a while one makes the calls %v", calls)
	}
	if calls, _ := plan(); len(calls) > 0 {
		t.Errorf("and the next one %v", calls)
	}
	for name, capacity := range published(t) {
		w.daemons[hostA].AddVolume(name, capacity)
	}
	w.clock.Step(10 * time.Second)
	if _, err := plan(); err != nil {
		t.Errorf("another process has published the image: %v", err)
	}
}

// However many base images a pool has, one is looked at.
func TestManyBaseImages(t *testing.T) {
	w := newT(t)
	d := w.daemons[hostA]
	for _, v := range d.Volumes() {
		for i := range 30 {
			d.AddVolume(strings.Replace(v, sum(image), sum([]byte{byte(i)}), 1), 1<<20)
		}
	}
	p := w.provider()
	calls := w.since(func() {
		_, err := p.Plan(t.Context(), w.request())
		must(w.t, err)
	})
	if looked := counted(calls, "StorageVolGetInfo"); looked != 1 {
		t.Errorf("%d volumes were looked at in %d calls", looked, len(calls))
	}
}

// Each upload takes memory of the client library's: a host gets one seed at a time, and all together a few.
func TestSeedsAtATime(t *testing.T) {
	w := newT(t)
	synctest.Test(t, func(t *testing.T) {
		w.t = providertest.Go(t)
		p := w.onlyA()
		var now, most atomic.Int32
		w.wires[hostA].Add(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-time.After(time.Second) // of the bubble
			return do()
		})
		failed := make(chan error)
		const guests = 4
		for range guests {
			req := w.request()
			ref := w.ref(req, 1)
			go func() { failed <- p.Create(t.Context(), req, ref) }()
		}
		for range guests {
			must(w.t, <-failed)
		}
		if most.Load() != 1 {
			t.Errorf("%d at a time", most.Load())
		}
	})
}

// A host that is another one than it should be is left alone for a while, as one that refuses the key.
func TestAnotherHostIsLeftAlone(t *testing.T) {
	w := newT(t)
	w.hostA = "hostUUID: 11111111-2222-3333-4444-555555555555"
	p := w.provider()
	for range 20 {
		_, err := p.Plan(t.Context(), w.request())
		expect(t, "Plan", err, provider.ErrDenied, "")
	}
	if n := counted(w.wires[hostA].Seen(), "ConnectGetCapabilities"); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	w.clock.Step(kvm.RefusedRest)
	_, err := p.Plan(t.Context(), w.request())
	expect(t, "after a while", err, provider.ErrDenied, "")
	if n := counted(w.wires[hostA].Seen(), "ConnectGetCapabilities"); n != 2 {
		t.Errorf("after a while it was asked %d times in all", n)
	}
}

func counted(calls []string, name string) (n int) {
	for _, call := range calls {
		if call == name {
			n++
		}
	}
	return n
}

// published are the volumes of the image by their capacity.
func published(t *testing.T) map[string]uint64 {
	t.Helper()
	newT(t)
	return base.volumes
}

// A pool need not be nearly full to be too small for a volume of which all is reserved.
func TestAPoolThatIsTooSmallForAnImage(t *testing.T) {
	const length, room = 6 << 30, 5 << 30
	w := newWorld(providertest.Go(t))
	w.server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(length))
		_, _ = rw.Write(image)
		<-r.Context().Done()
	})
	w.daemons[hostA].SetRoom(16<<20, room)
	w.wires[hostA].Add(libvirttest.On("StorageVolCreateXML"), fails(libvirt.ErrSystemError))
	p := w.provider()
	var err error
	for range 5000 {
		if _, err = p.Plan(t.Context(), w.request()); provider.Class(err) != provider.ErrTransient {
			break
		}
		must(w.t, pause(t.Context()))
		w.clock.Step(time.Millisecond)
	}
	expect(t, "Plan", err, provider.ErrQuotaExceeded, "", "pool default is full")
}
