package scene

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/forwardproxy"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

// earlier is a clock that is behind, so that the VMs made by it are old enough for the collector of orphans.
type earlier struct{ clock.RealClock }

const head = 2 * time.Minute

func (earlier) Now() time.Time                  { return time.Now().Add(-head) }
func (earlier) Since(t time.Time) time.Duration { return time.Since(t.Add(head)) }

// The projects of the emulated Compute Engine: one that works, one whose Proxies get lost, one without quota.
const (
	projectUsed, projectLost, projectPoor = "project-used", "project-lost", "project-poor"
)

// cloud is an emulated Compute Engine. At the address of each of its VMs a forward proxy of this process answers.
type cloud struct {
	emulator *gcpemulator.Server
	port     int
	proxies  []*forwardproxy.Server
	ended    chan error
}

func startCloud(ctx context.Context) (*cloud, error) {
	c := &cloud{ended: make(chan error, most)}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// most is how many VMs there may be at one time.
const most = 20

func (c *cloud) start(ctx context.Context) (err error) {
	var addresses []string
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for i := range most {
		address := fmt.Sprintf("127.0.84.%d", i+1)
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("%s:%d", address, c.port))
		if err != nil {
			return err
		}
		if at, ok := l.Addr().(*net.TCPAddr); ok {
			c.port = at.Port
		}
		s, err := forwardproxy.New(forwardproxy.Config{Dial: forwardproxy.NewDialer(forwardproxy.DestinationPolicy{Allow: loopback}, netip.Addr{}, 0)})
		if err != nil {
			return errors.Join(err, l.Close())
		}
		c.proxies, addresses = append(c.proxies, s), append(addresses, address)
		go func() { c.ended <- s.Serve(l) }()
	}
	e := gcpemulator.New(gcpemulator.Options{
		Clock: earlier{}, Projects: []string{projectUsed, projectLost, projectPoor}, Addresses: addresses,
		Delays: gcpemulator.Delays{Insert: 300 * time.Millisecond, Boot: 500 * time.Millisecond, Delete: 500 * time.Millisecond, Stop: 200 * time.Millisecond},
	})
	e.Inject(gcpemulator.Match{Call: "instances.insert", Project: projectPoor}, gcpemulator.Fault{
		Status: http.StatusForbidden, Reason: "quotaExceeded", Domain: "usageLimits", Message: "Quota 'CPUS' exceeded. Limit: 0.0 in region us-central1.",
	})
	c.emulator, err = e.Listen(ctx, "127.0.0.1:0")
	return err
}

func (c *cloud) stop() error {
	var errs []error
	if c.emulator != nil {
		errs = append(errs, c.emulator.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, p := range c.proxies {
		if err := p.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			errs = append(errs, err)
		}
	}
	for range c.proxies {
		if err := <-c.ended; err != nil && !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
