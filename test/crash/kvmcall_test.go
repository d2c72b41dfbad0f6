package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/libvirttest"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/providertest"
)

// mutating are the calls that are effects. Flows know the first of a creation and of a deletion as those.
var mutating = map[string]struct {
	name, op string
	makes    bool
}{
	"DomainDefineXMLFlags":  {"create", providertest.OpCreate, true},
	"StorageVolCreateXML":   {"make volume", providertest.OpCreate, true},
	"StorageVolUpload":      {"fill volume", providertest.OpCreate, false},
	"DomainCreateWithFlags": {"start", providertest.OpCreate, false},
	"DomainDestroyFlags":    {"delete", providertest.OpDelete, false},
	"StorageVolDelete":      {"remove volume", providertest.OpDelete, false},
	"DomainUndefineFlags":   {"undefine", providertest.OpDelete, false},
}

var errLost = errors.New("the answer is lost")

// process is an operator process with its provider. What one sends that is dead or deposed gets lost.
type process struct {
	provider.Provider
	kvm *kvm.Provider
	c   *hypervisors

	// Under c.mu:
	over  any  // the panic that ended it
	awake bool // it goes on although another one has followed
	op    string
	ref   provider.Ref
	fails int // the call, counted from 1, of which the hook is asked, or that fails
	fault providertest.Fault
}

// speak leads to a host's daemon.
func (e *process) speak(host string) func(net.Conn) (session.API, error) {
	d := e.c.daemons[host]
	wire := &libvirttest.Wire{}
	wire.Add(libvirttest.All, func(call string, do func() error) error { return e.carry(host, call, do) })
	speak := wire.Speak(func(c net.Conn) (session.API, error) {
		api, err := d.Speak(c)
		if d.real {
			return api, err
		}
		return &lower{api, d}, err
	})
	return func(c net.Conn) (session.API, error) {
		api, err := speak(c)
		return &upper{api, d}, err
	}
}

// carry takes a call to the daemon, a mutating one as an effect.
func (e *process) carry(host, call string, do func() error) (err error) {
	defer func() {
		if over := recover(); over != nil {
			if _, ok := over.(died); !ok {
				over = fmt.Sprintf("%v\n%s", over, debug.Stack())
			}
			e.c.mu.Lock()
			e.over = over
			e.c.mu.Unlock()
			err = errLost
		}
	}()
	if e.lost(host) {
		return errLost
	}
	if m, ok := mutating[call]; ok {
		err = e.c.w.effect(m.name, func() error { return e.send(host, call, do) })
		e.c.judge()
	} else if err = e.failing(host); err == nil {
		e.c.settle()
		err = do()
	}
	e.pause()
	return err
}

// judge looks behind each effect for what must never be: two instances, and, as long as nothing has come in between, volumes
// without the domain that says whose they are.
func (c *hypervisors) judge() {
	all := c.Instances()
	c.w.maxVisible = max(c.w.maxVisible, len(all))
	for _, i := range all {
		if i.Parts[0] != partDomain && !c.rough && c.w.lied == nil {
			c.w.lied = fmt.Errorf("volumes without a domain: %v", i)
		}
	}
}

// unharmed finds fault with a call for one attempt that does something to another one.
func (c *hypervisors) unharmed(ref provider.Ref) (check func()) {
	before := c.beside(ref)
	return func() {
		if after := c.beside(ref); after != before && c.w.lied == nil {
			c.w.lied = fmt.Errorf("a call for attempt %d made of %s\n%s", ref.Attempt, before, after)
		}
	}
}

// beside tells of all domains and volumes that are not of the attempt.
func (c *hypervisors) beside(ref provider.Ref) (all string) {
	for _, host := range []string{hostA, hostB} {
		for _, dom := range c.daemons[host].Domains() {
			if r := recordIn(dom); r.Attempt != fmt.Sprint(ref.Attempt) {
				all += fmt.Sprintln(host, dom.UUID, r.Attempt, dom.State)
			}
		}
		for _, v := range c.daemons[host].Volumes() {
			if part := strings.SplitN(v, ".", 5); len(part) == 5 && part[2] != fmt.Sprint(ref.Attempt) {
				all += fmt.Sprintln(host, v)
			}
		}
	}
	return all
}

func (e *process) lost(host string) bool {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	return e.over != nil || e.c.current != e && !e.awake || e.c.dark[host]
}

// failing is the error of a call that only reads, nil for most. A list reads hosts at one time; it is one of them that fails.
func (e *process) failing(host string) error {
	e.c.mu.Lock()
	defer e.c.mu.Unlock()
	if e.fails == 0 || e.op == "" || mutates(e.op) || e.op == providertest.OpList && host != hostA {
		return nil
	}
	if e.fails--; e.fails == 0 {
		return refusalOf(e.fault)
	}
	return nil
}

func mutates(op string) bool { return op == providertest.OpCreate || op == providertest.OpDelete }

// send lets a mutating call arrive, with what befalls it.
func (e *process) send(host, call string, do func() error) error {
	c, m := e.c, mutating[call]
	c.settle()
	c.follow()
	f, d, now := e.befalls(), c.daemons[host], c.w.clock.Now()
	what := fmt.Sprintf("%s %s attempt %d", host, call, e.ref.Attempt)
	err := errLost
	defer c.unharmed(e.ref)()
	switch {
	case f.ArriveAfter > 0:
		c.mu.Lock()
		c.late = append(c.late, &arrival{due: now.Add(f.ArriveAfter), before: c.amid, what: what, op: m.op, ref: e.ref, makes: m.makes, do: do})
		c.mu.Unlock()
	case f.Applied:
		_ = do()
	case f.Err != nil:
		err = refusalOf(f)
	default:
		d.mu.Lock()
		d.failStart, d.torn = f.FailLate != nil, f.LeaveParts
		d.mu.Unlock()
		err = do()
		d.mu.Lock()
		d.failStart, d.torn = false, false
		d.mu.Unlock()
	}
	c.settle()
	c.tell(now, what, err)
	return err
}

// befalls asks what befalls a mutating call.
func (e *process) befalls() providertest.Fault {
	w := e.c.w
	if w.dyingUnanswered() {
		return w.fault(e.op, e.ref)
	}
	if !e.c.picky {
		return providertest.Fault{}
	}
	if e.fails--; e.fails != 0 {
		return providertest.Fault{}
	}
	return e.c.hook(e.op, e.ref)
}

// stall lets a process be paused and wake up again.
type stall struct {
	calls int // of creations and deletions so far, their beginnings counted, too
	at    int // behind which of them it happens
	until func(w *world, begin time.Time, attempt int64) bool
	done  bool
}

// pause lets another process take over, before a creation or deletion or behind the answer to one of its calls, and the story
// go on. Then this one awakes, and knows nothing of it.
func (e *process) pause() {
	c := e.c
	if c.stall == nil || !mutates(e.op) {
		return
	}
	if c.stall.calls++; c.stall.done || c.stall.calls-1 != c.stall.at {
		return
	}
	c.stall.done, c.rough, e.awake = true, true, true
	c.told = append(c.told, "paused")
	c.w.restart()
	for begin, n := c.w.clock.Now(), 0; n < maxPasses && !c.w.told() && !c.stall.until(c.w, begin, e.ref.Attempt); n++ {
		c.w.turn()
	}
	c.told = append(c.told, "awake")
}

// begin notes what the process is about to do, and returns how to forget it.
func (e *process) begin(op string, ref provider.Ref) func() {
	c := e.c
	var f providertest.Fault
	fails := 0
	if c.picky {
		fails = 1 + c.w.random.IntN(5)
		if !mutates(op) {
			f = c.hook(op, ref)
		}
	}
	if !mutates(op) && f.Err == nil {
		fails = 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e.op, e.ref, e.fault, e.fails = op, ref, f, fails
	return func() {
		c.mu.Lock()
		over := e.over
		e.op = ""
		c.mu.Unlock()
		if over != nil {
			panic(over)
		}
	}
}

func (e *process) Create(ctx context.Context, req provider.CreateRequest, ref provider.Ref) error {
	defer e.begin(providertest.OpCreate, ref)()
	e.pause()
	return e.Provider.Create(ctx, req, ref)
}

// Delete finds fault with one that says all is gone while the domain is there. A volume may have come late.
func (e *process) Delete(ctx context.Context, ref provider.Ref) error {
	defer e.begin(providertest.OpDelete, ref)()
	e.pause()
	err := e.Provider.Delete(ctx, ref)
	if c := e.c; err == nil && !e.awake && c.w.lied == nil {
		for _, i := range c.Instances() {
			if i.ID == ref.ID && i.Marks.Attempt == ref.Attempt && i.Parts[0] == partDomain {
				c.w.lied = fmt.Errorf("%s attempt %d is said to be gone, but there is %v", ref.ID, ref.Attempt, i)
			}
		}
	}
	return err
}

func (e *process) ListByTag(ctx context.Context) (provider.Listing, error) {
	defer e.begin(providertest.OpList, provider.Ref{})()
	return e.Provider.ListByTag(ctx)
}

// Get finds fault with a proof of absence for what is there, or can still come into being.
func (e *process) Get(ctx context.Context, ref provider.Ref) (*provider.Instance, error) {
	defer e.begin(providertest.OpGet, ref)()
	inst, err := e.Provider.Get(ctx, ref)
	if w := e.c.w; errors.Is(err, provider.ErrNotFound) && w.lied == nil {
		if there := e.c.coming(ref); there != "" {
			w.lied = fmt.Errorf("%s attempt %d is said not to be there, but there is %s", ref.ID, ref.Attempt, there)
		}
	}
	return inst, err
}

// coming is what there is of an attempt, or on its way; "" for nothing.
func (c *hypervisors) coming(ref provider.Ref) string {
	for _, i := range c.Instances() {
		if i.ID == ref.ID && i.Marks.Attempt == ref.Attempt {
			return i.String()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.late, func(a *arrival) bool { return a.makes && a.ref.ID == ref.ID && a.ref.Attempt == ref.Attempt }); i >= 0 {
		return "a call on its way: " + c.late[i].what
	}
	return ""
}
