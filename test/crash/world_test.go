package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/egress-proxies/egress-proxies-operator/api/v1alpha1"
	"github.com/egress-proxies/egress-proxies-operator/internal/controller/proxy"
	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/registry"
)

const (
	callTimeout = 30 * time.Second
	skew        = 5 * time.Second
	bootDelay   = 2 * time.Second
	entry       = "cloud"
)

var key = types.NamespacedName{Namespace: "default", Name: "a"}

// visibility is how the backend's effects come about.
type visibility struct {
	name  string
	delay time.Duration
	// late is how late a call arrives whose sender has died, 10 s when zero.
	late time.Duration
	// lag is how far lists are behind.
	lag time.Duration
	// fail and failDelete make the first accepted creation and deletion fail after it was accepted.
	fail, failDelete bool
	leaveParts       bool
	// forget makes the backend forget creations as soon as they have ended; rule makes the operator keep a firewall rule.
	forget, rule bool
	// bySteps: creations take several calls, so an instance may be there long before it is what it is to be.
	bySteps bool
	// chance: faults befall one call of those that a creation or deletion consists of, by chance.
	chance bool
}

func visibilities() []visibility {
	return []visibility{
		{name: "at once"},
		{name: "after 90 s", delay: 90 * time.Second},
		{name: "failing late", fail: true},
		{name: "failing late with parts left", fail: true, leaveParts: true},
	}
}

// moment is when, around an effect, the operator dies.
type moment int

const (
	never moment = iota
	before
	unanswered // sent; it takes effect late, and nobody hears of it
	answered
	overtaken // as unanswered; the story goes on only when it has taken effect, so that the successor is there by then
)

func (m moment) String() string {
	return [...]string{"never", "before", "sent, no answer", "after its answer", "sent, no answer, and overtaken"}[m]
}

// died is what a killed operator panics with.
type died struct{}

// world is one Proxy, one backend and one operator that can be killed.
type world struct {
	api     client.Client
	clock   *clocktesting.FakeClock
	backend backend
	vis     visibility
	random  *rand.Rand
	r       *proxy.Reconciler
	p       provider.Provider // of the operator
	health  *prober
	secrets *secrets

	effects []string
	killAt  int // index of the effect, -1 for none
	when    moment
	dying   bool // what is sent now, nobody hears the answer of
	failed  bool // the late failure has happened

	// doomed are the instances that were there at the last step of the story; wanted is the one that nobody may remove, ""
	// for none, and removed what was wrong about that.
	doomed  map[string]bool
	wanted  string
	removed error
	// maxVisible is the most instances that were to be seen at one time.
	maxVisible int
	released   error  // what was wrong when the finalizer was released
	version    string // of the object after the last pass
	// proved tells for each subject through which instance traffic flowed last; lied is what was wrong with a Ready.
	proved map[fleet.Subject]string
	lied   error
	// depose is the effect in the middle of which the operator is followed by another one, "" for none.
	depose string
	// story is what is still to be told.
	story []storyStep
	// interfere lets somebody else write to the object right before or after the operator's next write.
	interfere moment
}

func newWorld(on ground, vis visibility, seed uint64) *world {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	w := &world{
		api:   newAPI(),
		clock: clk, vis: vis, killAt: -1, random: rand.New(rand.NewPCG(seed, seed)),
		health: &prober{}, secrets: &secrets{held: map[string]*corev1.Secret{}}, proved: map[fleet.Subject]string{}, doomed: map[string]bool{},
	}
	w.backend = on.build(w)
	w.backend.OnCall(w.fault)
	w.restart()
	return w
}

func (w *world) close() { w.backend.close() }

func (w *world) window() provider.Window {
	return provider.Window{Clock: w.clock, CallTimeout: callTimeout, Visibility: w.vis.delay, Skew: skew}
}

// fault injects the visibility's late failure and holds back calls whose sender has died.
func (w *world) fault(op string, _ provider.Ref) (f providertest.Fault) {
	if (op == providertest.OpCreate && w.vis.fail || op == providertest.OpDelete && w.vis.failDelete) && !w.failed {
		w.failed = true
		f.FailLate, f.LeaveParts = errors.New("internal error"), w.vis.leaveParts
	}
	if (op == providertest.OpCreate || op == providertest.OpDelete) && w.dyingUnanswered() {
		f.ArriveAfter = cmp.Or(w.vis.late, 10*time.Second)
	}
	return f
}

// dyingUnanswered reports whether the effect under way is the one whose answer is lost.
func (w *world) dyingUnanswered() bool { return w.dying }

// effect runs do as one effect of the operator and kills it where that is asked for.
func (w *world) effect(name string, do func() error) error {
	w.effects = append(w.effects, name)
	mine := len(w.effects)-1 == w.killAt
	if mine && w.when == before {
		panic(died{})
	}
	if w.depose == name {
		w.depose = ""
		w.follow()
		_ = do() // the deposed operator's context has ended, so it never sees the answer
		return context.Canceled
	}
	w.dying = mine && (w.when == unanswered || w.when == overtaken)
	err := do()
	w.dying = false
	if mine && w.when != never {
		panic(died{})
	}
	return err
}

// restart replaces the operator by one that knows nothing but what is on record.
func (w *world) restart() {
	c := &mortalClient{Client: w.api, w: w}
	p := w.backend.provider(w)
	w.p = p
	share, err := proxy.ParseShare("100%")
	if err != nil {
		panic(err)
	}
	w.r = &proxy.Reconciler{
		Client: c, Live: c, CloudInit: w.secrets, Auth: c, Health: w.health, Observations: observer{w, p}, Fleet: noFleet{}, Leases: noLeases{},
		Providers: lookup{registry.Handle{Name: entry, Revision: "1", Provider: instrument.WithMetrics(p, entry, w.clock, noMetrics{})}},
		Events:    events.NewFakeRecorder(10_000), Clock: w.clock, CallTimeout: callTimeout, MaxReplacing: share, Random: w.random.Float64,
		Intervals: proxy.Intervals{
			ProvisioningPoll: 10 * time.Second, DeletionPoll: 10 * time.Second, DriftPoll: time.Minute, QuotaRetry: 5 * time.Minute,
			Provisioning: 15 * time.Minute, Drain: 2 * time.Minute,
		},
	}
}

// follow lets another operator take over in the middle of a call of this one and work for a while: not as long as the
// call may live.
func (w *world) follow() {
	w.restart()
	for end := w.clock.Now().Add(callTimeout * 2 / 3); w.clock.Now().Before(end); {
		w.pass()
	}
}

// pass runs one pass and lets the time until the next one pass. A killed operator is restarted two seconds later.
func (w *world) pass() {
	rv := w.version
	res, dead := w.reconcile()
	now := w.get()
	w.lookAt(now)
	w.probe(now)
	wait := res.RequeueAfter
	w.version = ""
	if now != nil {
		w.version = now.ResourceVersion
	}
	switch {
	case dead:
		w.restart()
		wait = 2 * time.Second
	case now != nil && w.version != rv:
		wait = 50 * time.Millisecond // its own write wakes it
	case wait == 0 || wait > 30*time.Second:
		wait = 30 * time.Second
	}
	w.clock.Step(wait)
	w.lookAt(now)
}

func (w *world) reconcile() (res ctrl.Result, dead bool) {
	dead = dies(func() {
		var err error
		if res, err = w.r.Reconcile(w.ctx(), ctrl.Request{NamespacedName: key}); err != nil {
			res.RequeueAfter = time.Second
		}
	})
	return res, dead
}

// poll lists, as the observer does now and then although there may be no Proxy.
func (w *world) poll() {
	if dies(func() { _, _ = w.p.ListByTag(w.ctx()) }) {
		w.restart()
	}
}

// dies reports whether the operator was killed while it did do.
func dies(do func()) (dead bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(died); !ok {
				panic(r)
			}
			dead = true
		}
	}()
	do()
	return false
}

// look keeps watch over what must never be.
func (w *world) look() { w.lookAt(w.get()) }

// lookAt is look at an object that was read already.
func (w *world) lookAt(p *v1alpha1.Proxy) {
	visible := 0
	for _, i := range w.backend.Instances() {
		if !i.Pending {
			visible++
		}
	}
	w.maxVisible = max(w.maxVisible, visible)
	if left := w.backend.Instances(); p == nil && len(left) > 0 && w.released == nil {
		w.released = fmt.Errorf("the finalizer was released while there was %v", left)
	}
	if err := w.lying(p); err != nil && w.lied == nil {
		w.lied = err
	}
}

func (w *world) get() *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{}
	err := w.api.Get(context.Background(), key, p)
	if client.IgnoreNotFound(err) != nil {
		panic(err)
	}
	if err != nil {
		return nil
	}
	return p
}

func (w *world) create() { w.createAs("6f1c3d1e-0000-4000-8000-000000000001") }

func (w *world) createAs(uid types.UID) {
	w.must(w.api.Create(context.Background(), &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid, Generation: 1},
		Spec:       v1alpha1.ProxySpec{Mode: v1alpha1.ModeManaged, Provider: entry, Placement: w.backend.placement("")},
	}))
}

func (w *world) edit(change func(*v1alpha1.Proxy)) {
	p := w.get()
	if p == nil {
		return
	}
	change(p)
	p.Generation++
	w.must(w.api.Update(context.Background(), p))
}

func (w *world) delete() {
	if p := w.get(); p != nil {
		w.must(w.api.Delete(context.Background(), p))
	}
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

type noHealth struct{}

func (noHealth) Verdict(types.NamespacedName) (fleet.Verdict, bool) { return fleet.Verdict{}, false }

func (noHealth) Replaceable(types.NamespacedName, fleet.Subject) (replaceable, unsure bool) {
	return false, false
}

type noFleet struct{}

func (noFleet) Count(string) fleet.Count            { return fleet.Count{Recorded: 1} }
func (noFleet) Replacing(types.NamespacedName) bool { return false }

type noLeases struct{}

func (noLeases) Withdraw(fleet.LeaseKey) int { return 0 }
func (noLeases) Readmit(fleet.LeaseKey)      {}

type noMetrics struct{}

func (noMetrics) ProviderRequest(string, string, string, time.Duration) {}

type lookup struct{ h registry.Handle }

func (l lookup) Lookup(string) (registry.Handle, bool) { return l.h, true }

// observer lists at every question: the freshest list there can be.
type observer struct {
	w *world
	p provider.Provider
}

func (o observer) Seen(string, string, string) (provider.Instance, bool) {
	return provider.Instance{}, false
}

func (o observer) Strays(_, uid, id string) (out []provider.Instance) {
	listing, err := o.p.ListByTag(o.w.ctx())
	if err != nil {
		return nil
	}
	for _, i := range listing.Instances {
		if i.Marks.UID == uid && i.ID != id {
			out = append(out, i)
		}
	}
	return out
}
