package kvm

import (
	"context"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// visibility is how long a creation may take effect after its call has ended: a daemon that was waiting for a domain's or a
// pool's lock goes on with a call whose caller has hung up. 30 s is what libvirt waits for such a lock at most (its own
// QEMU_JOB_WAIT_TIME).
const visibility = 30 * time.Second

// maxDownloads bounds the downloads of base images at a time, over all hosts: each takes 4 MiB for what it sends, and shares
// the operator's way to the network.
const maxDownloads = 4

// maxSeeds bounds the seeds that are sent at a time, over all hosts, and one host gets one at a time: the client library takes
// 4 MiB for each.
const maxSeeds = 8

// Provider runs libvirt domains. It is safe for concurrent use, also by several operator processes.
type Provider struct {
	name   string
	config Config
	owner  provider.Owner
	window provider.Window
	hosts  map[string]*host
	seeds  chan struct{}
}

var (
	_ provider.Provider     = (*Provider)(nil)
	_ provider.Targeter     = (*Provider)(nil)
	_ provider.PlanTargeter = (*Provider)(nil)
	_ provider.Checker      = (*Provider)(nil)
	_ io.Closer             = (*Provider)(nil)
)

// New returns the provider of one configuration entry. It does not dial.
func New(_ context.Context, opts provider.Options) (provider.Provider, error) {
	c, err := decode(opts.Block)
	if err != nil {
		return nil, err
	}
	return newProvider(opts, c, Seams{}), nil
}

func newProvider(opts provider.Options, c Config, s Seams) *Provider {
	w := opts.Window
	w.Visibility = visibility
	p := &Provider{name: opts.Name, config: c, owner: opts.Owner, window: w, hosts: map[string]*host{}, seeds: make(chan struct{}, maxSeeds)}
	slots, claims := make(chan struct{}, maxDownloads), claims{}
	for _, h := range c.Hosts {
		p.hosts[h.Name] = newHost(h, s, ticking(w.Clock), slots, &claims)
	}
	return p
}

// ticking is for what takes a clock that also wakes up: the window's if it can, else the real one.
func ticking(c clock.PassiveClock) session.Clock {
	if t, ok := c.(session.Clock); ok {
		return t
	}
	return clock.RealClock{}
}

// Close ends downloads and connections and returns when they have ended. Domains go on.
func (p *Provider) Close() error {
	var wg sync.WaitGroup
	for _, h := range p.hosts {
		wg.Go(h.close)
	}
	wg.Wait()
	return nil
}

// Target names the host, which is what fails by itself.
func (p *Provider) Target(ref provider.Ref) string {
	if at, _, err := p.placeOf("", ref.ID); err == nil {
		return at.host
	}
	return ""
}

// PlanTarget names the host that Plan asks.
func (p *Provider) PlanTarget(req provider.CreateRequest) string {
	at, err := p.planned(req)
	if err != nil {
		return ""
	}
	return at.host
}

// bound limits a call to the time that one may take.
func (p *Provider) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.window.CallTimeout)
}
