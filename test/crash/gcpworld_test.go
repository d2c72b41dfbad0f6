package crash

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/gcp"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
	"github.com/egress-proxies/egress-proxies-operator/test/gcpemulator"
)

const (
	project     = "crawlers-1"
	insertDelay = time.Second
)

// compute is Compute Engine, which operators reach with Google's SDK over HTTP. Mutating calls are effects.
type compute struct {
	*gcpemulator.Emulator
	x       *wire
	clock   clock.PassiveClock
	rule    bool
	current *end
	ends    []*end
	seen    []string
	closers []io.Closer
	hook    func(op string, ref provider.Ref) providertest.Fault

	makers map[string]string // the VM's number by that of its disk
	// failing is until when an insert may be on its way to fail: the emulator would never end its operation if a hand removed
	// the VM meanwhile.
	failing time.Time

	mu sync.Mutex
	up map[string]serving // by external address
}

// serving is a VM that runs.
type serving struct{ identity, port string }

// onGCP is the provider gcp in front of an emulator.
func onGCP(x *wire) ground {
	return ground{"compute", []visibility{
		{name: "at once"},
		// Longer than the provider waits for what no operation announces.
		{name: "after 90 s", delay: 90 * time.Second},
		// Calls outlive a deletion and the creation after it.
		{name: "after 20 s, nothing is remembered", delay: 20 * time.Second, late: callTimeout - time.Second, forget: true},
		{name: "failing late", fail: true},
		{name: "failing late with parts left", fail: true, leaveParts: true},
		{name: "deletions failing late", delay: 20 * time.Second, failDelete: true},
		{name: "with a firewall rule", rule: true},
	}, func(w *world) backend {
		c := &compute{x: x, clock: w.clock, rule: w.vis.rule, makers: map[string]string{}, up: map[string]serving{}}
		removal := w.vis.delay
		if w.vis.forget {
			removal = 0
		}
		opts := gcpemulator.Options{
			Clock: w.clock, Projects: []string{project}, ListLag: w.vis.lag, OnRunning: c.runs, OnGone: c.gone,
			Delays: gcpemulator.Delays{
				Show: w.vis.delay, Insert: w.vis.delay + insertDelay, Staging: time.Second, Boot: bootDelay, Delete: removal, Global: time.Second,
			},
		}
		if w.vis.forget {
			opts.OperationMemory, opts.RequestMemory = -1, -1
		}
		c.Emulator = gcpemulator.New(opts)
		return c
	}}
}

func (c *compute) provider(w *world) provider.Provider {
	e := c.x.connect(c, w)
	c.current = e
	c.ends = append(c.ends, e)
	config := fmt.Sprintf("project: %s\nendpoint: %s/%s/compute/v1/\nanonymous: true\n", project, c.x.url, e.name)
	if c.rule {
		config += "firewall: {manage: true, sourceRanges: [192.0.2.0/24]}\n"
	} else {
		config += "firewall: {existingSourceRanges: [192.0.2.0/24]}\n"
	}
	block, err := registry.ParseBlock(gcp.Type, []byte(config))
	w.must(err)
	p, err := gcp.New(w.ctx(), provider.Options{Name: entry, Block: block, Owner: owner, Window: w.window()})
	w.must(err)
	c.closers = append(c.closers, p.(io.Closer))
	return &remote{p, e}
}

func (c *compute) OnCall(hook func(op string, ref provider.Ref) providertest.Fault) { c.hook = hook }

var zones = map[string]string{"": "us-central1-a", "zone-a": "us-central1-a", "zone-b": "us-central1-b"}

func (*compute) id(zone, name string) string { return gcpemulator.ID(project, zones[zone], name) }

func (*compute) placement(zone string) *v1alpha1.Placement {
	return &v1alpha1.Placement{Zone: zones[zone], MachineType: "e2-micro", Image: "projects/debian-cloud/global/images/family/debian-12"}
}

func (c *compute) close() {
	for i, e := range c.ends {
		c.x.disconnect(e)
		_ = c.closers[i].Close()
	}
}
