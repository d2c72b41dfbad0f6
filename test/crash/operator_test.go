package crash

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

// Where an operator is parked: before each access to what it shares with the other one. A place behind an access would
// add nothing: what an operator does until its next one is its own affair.
const (
	atIdle      = "idle"
	atCached    = "read from the cache"
	atLive      = "read live"
	atFinalizer = "write the finalizer"
	atStatus    = "write the status"
	atPlan      = "Plan"
	atGet       = "Get"
	atList      = "ListByTag"
	atCreate    = "Create"
	atDelete    = "Delete"
	// Create and Delete look before they send, so others may come in between there too.
	atSendCreate = "send the creation"
	atSendDelete = "send the deletion"
)

// fingerprint stands for a history. Equal histories lead to equal states.
type fingerprint uint64

func (f fingerprint) with(what ...any) fingerprint {
	h := fnv.New64a()
	_, _ = fmt.Fprintln(h, uint64(f), what)
	return fingerprint(h.Sum64())
}

// evidence that another instance than the recorded one is surplus: it was listed, then the record was read live, then the
// recorded instance was seen.
type evidence int

const (
	listed evidence = iota + 1
	readLive
	sawRecorded
)

// after returns next if it follows on e.
func (e evidence) after(next evidence, ok bool) evidence {
	if ok && e == next-1 {
		return next
	}
	return e
}

// operator is one of two processes of one installation that reconcile the same Proxy.
type operator struct {
	d    *duo
	name string
	task *task
	r    *proxy.Reconciler
	park func(place string)

	// past is everything that it has learned since it started, which is all that it can act upon.
	past fingerprint
	// wait is how long it would sleep now that its pass has ended.
	wait  time.Duration
	wrote bool
	// cache is the old copy that its cache shows during this pass; nil while the cache is up to date.
	cache *v1alpha1.Proxy
	// read is the version of the object that the pass began with; proven tells that it was the newest one at some time
	// since: by a write that went through, or by a live read that showed the same.
	read   string
	proven bool
	// evidence is how far the pass is in the order that allows the removal of a stray.
	evidence evidence
	// asked is the ID that it asked for last, which is the recorded one as the pass knows it.
	asked string
	// fault befalls what it sends next.
	fault providertest.Fault
}

// start gives the operator a new life, without memory.
func (op *operator) start() {
	op.stop()
	op.past, op.wait, op.cache = fingerprint(0).with(op.name), 0, nil
	op.r = op.reconciler()
	op.task = newTask(func(park func(string)) {
		op.park = park
		for {
			op.pass()
			op.cache = nil
			park(atIdle)
		}
	})
}

// stop kills it where it stands.
func (op *operator) stop() {
	if op.task != nil {
		op.task.stop()
	}
}

func (op *operator) idle() bool { return op.task.at == "" || op.task.at == atIdle }

func (op *operator) pass() {
	op.wrote = false
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	res, err := op.r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
	switch {
	case err != nil:
		op.wait = time.Second
	case op.wrote:
		op.wait = time.Second // its own write wakes it; sooner would only cost more rounds
	case res.RequeueAfter == 0 || res.RequeueAfter > 30*time.Second:
		op.wait = 30 * time.Second
	default:
		op.wait = res.RequeueAfter
	}
}

// learn adds an answer to what the operator knows, and when it knew.
func (op *operator) learn(answer ...any) {
	op.past = op.past.with(op.task.at, op.d.clock.Now().UnixNano(), answer)
}

func (op *operator) reconciler() *proxy.Reconciler {
	c, p := &parkingClient{op.d.api, op}, &parkingProvider{op.d.cloud.Provider(entry, owner, op.d.window()), op}
	share, err := proxy.ParseShare("100%")
	op.d.must(err)
	return &proxy.Reconciler{
		Client: c, Live: liveReader{op.d.api, op}, CloudInit: c, Auth: c,
		Health: noHealth{}, Observations: observer{op.d.world, p}, Fleet: noFleet{}, Leases: noLeases{},
		Providers: lookup{registry.Handle{Name: entry, Revision: "1", Provider: instrument.WithMetrics(p, entry, op.d.clock, noMetrics{})}},
		Events:    &events.FakeRecorder{}, Clock: op.d.clock, CallTimeout: callTimeout, MaxReplacing: share,
		// No jitter: waits must not depend on how often somebody asked for a random number.
		Random: func() float64 { return 0.5 },
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: time.Minute, QuotaRetry: 5 * time.Minute,
			Provisioning: 15 * time.Minute, Drain: 2 * time.Minute,
		},
	}
}
