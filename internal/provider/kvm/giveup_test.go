package kvm_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// A connection that ends while an address is looked for says nothing of the address.
func TestAConnectionThatIsLostDuringALookup(t *testing.T) {
	for _, call := range []string{"NetworkGetDhcpLeases", "DomainInterfaceAddresses"} {
		w := newT(t)
		if call == "DomainInterfaceAddresses" {
			w.extra = "addressSources: [arp, lease]\n"
		}
		p := w.onlyA()
		_, ref := w.made(p)
		at, release := w.wires[hostA].Hold(libvirttest.On(call))
		w.wires[hostA].Once(libvirttest.On("ConnectGetLibVersion"), func(string, func() error) error { return io.ErrUnexpectedEOF })
		done := make(chan error, 1)
		go func() { _, err := p.Get(t.Context(), ref); done <- err }()
		<-at
		for !w.clock.HasWaiters() {
			must(w.t, pause(t.Context()))
		}
		w.clock.Step(15 * time.Second)
		expect(t, "during "+call, <-done, provider.ErrTransient, provider.ReasonUnreachable, "connection was lost")
		release()
		w.expect(t, "after "+call, p, ref, "Running")
	}
}

// Nothing is read of what is to be written once whoever wanted that has given up.
func TestAnUploadThatIsGivenUp(t *testing.T) {
	w := newT(t)
	p := w.provider()
	req := w.request()
	ref := w.ref(req, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	free := make(chan struct{})
	w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
		cancel()
		<-free
		err := do()
		ended <- err
		return err
	})
	expect(t, "Create", p.Create(ctx, req, ref), provider.ErrTransient, "", "canceled")
	close(free)
	if err := <-ended; err == nil {
		t.Error("it was written after all")
	}
	if content, ok := w.daemons[hostA].Volume(w.volume(ref, "seed.iso")); !ok || len(content) > 0 {
		t.Errorf("%d bytes were written", len(content))
	}
	must(w.t, p.Create(t.Context(), req, ref))
	w.whole(t, "the next one", req, ref)
}

// A seed of which a part was written before the process died is written anew.
func TestAProcessThatDiesInMidUpload(t *testing.T) {
	w := newT(t)
	req := w.request()
	ref := w.ref(req, 1)
	w.wires[hostA].Once(libvirttest.On("StorageVolUpload"), func(_ string, do func() error) error {
		if err := do(); err != nil {
			return err
		}
		w.daemons[hostA].Cut(w.volume(ref, "seed.iso"), 1000)
		return errLost
	})
	expect(t, "Create", w.provider().Create(t.Context(), req, ref), provider.ErrTransient, "")
	must(w.t, w.provider().Create(t.Context(), req, ref))
	w.whole(t, "the next process", req, ref)
}

// Other images come and go while one is looked for.
func TestABaseImageThatVanishes(t *testing.T) {
	w := newT(t)
	p := w.provider()
	d := w.daemons[hostA]
	d.AddVolume("epx-base-other", 1)
	w.wires[hostA].Once(libvirttest.On("StoragePoolListAllVolumes"), func(_ string, do func() error) error {
		err := do()
		d.RemoveVolume("epx-base-other")
		return err
	})
	_, err := p.Plan(t.Context(), w.request())
	must(w.t, err)
}

// Whoever has given up already asks nothing of a host.
func TestContextsThatHaveEnded(t *testing.T) {
	w := newT(t)
	p := w.onlyA()
	steps := w.steps(p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := w.since(func() {
		for _, s := range steps {
			expect(t, s.op, s.do(ctx), provider.ErrTransient, "", "canceled")
		}
	})
	if len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

// A download has a connection of its own. What keeps it from getting one is told as for any call.
func TestADownloadThatCannotConnect(t *testing.T) {
	for _, tc := range []struct {
		reason string
		fault  func(w *world)
		class  error
		says   string
	}{
		{"it is refused", func(w *world) {
			n := 0
			w.dial = func(_ context.Context, host string) (net.Conn, error) {
				if n++; n > 1 {
					return nil, &dial.Error{Reason: dial.SSHAuthFailed, Err: errors.New("the key is refused")}
				}
				return w.daemons[host].Dial()
			}
		}, provider.ErrDenied, "the key is refused"},
		{"its pool is full", func(w *world) {
			// By then: what the download's own connection leads to has no room any more.
			full, n := libvirttest.NewDaemon(), 0
			full.SetRoom(16<<20, 0)
			w.speak = func(_ string, next speaking) speaking {
				return func(c net.Conn) (session.API, error) {
					if n++; n > 1 {
						return full.Speak(c)
					}
					return next(c)
				}
			}
		}, provider.ErrQuotaExceeded, "pool default is full"},
	} {
		w := newWorld(providertest.Go(t))
		tc.fault(w)
		p := w.provider()
		_, err := p.Plan(t.Context(), w.request())
		expect(t, tc.reason, err, provider.ErrTransient, "", "0 %")
		req := w.request()
		for range 5000 {
			if _, err = p.Plan(t.Context(), req); err == nil {
				t.Fatalf("%s: the image is there", tc.reason)
			}
			if !strings.Contains(err.Error(), "is being downloaded") {
				break
			}
			must(w.t, pause(t.Context()))
		}
		expect(t, tc.reason, err, tc.class, "", tc.says, `image "debian"`)
	}
}
