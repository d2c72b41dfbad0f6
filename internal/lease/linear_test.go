package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/egress-proxies/egress-proxies-operator/internal/fleet"
)

// The sequential specification against which concurrent histories are checked: two proxies, a of cap 1 and b of cap 2,
// one principal, a clock that is stepped by an operation of its own, verdicts that turn and instances that are replaced.
// Times are seconds since the start.
const (
	specWindow = 20
	specLife   = 30
	// over stands for ErrExpired and ErrProxyGone: of a lease that came to both ends, the ledger names the one it noticed
	// first.
	over = "over"
)

var specCap = map[string]int{"a": 1, "b": 2}

type specProxy struct {
	attempt int
	well    bool
	cools   int
}

type specLease struct {
	proxy           string
	attempt         int
	start, expires  int
	ended, released bool
	forget          int
	key             string
	body            int
}

type specState struct {
	now     int
	proxies map[string]specProxy
	leases  map[string]specLease
}

type specInput struct {
	op  string // acquire wait keyed renew release report step turn replace
	id  string // of a lease, or the name of a proxy, or a key
	ttl int
}

type specOutput struct {
	err     string
	id      string
	proxy   string
	expires int
}

func (s specState) clone() specState {
	return specState{s.now, maps.Clone(s.proxies), maps.Clone(s.leases)}
}

// advance ends and forgets what is over.
func (s specState) advance() {
	for id, l := range s.leases {
		if !l.ended && l.expires <= s.now {
			l.ended, l.forget = true, l.expires+specWindow
		}
		if s.leases[id] = l; l.ended && l.forget <= s.now {
			delete(s.leases, id)
		}
	}
}

func (s specState) live(proxy string) (n int) {
	for _, l := range s.leases {
		if l.proxy == proxy && !l.ended {
			n++
		}
	}
	return n
}

// best is the proxy with the fewest live leases among those that are well, have room and do not rest; a before b.
func (s specState) best() string {
	best := ""
	for _, n := range []string{"a", "b"} {
		p := s.proxies[n]
		if p.well && s.live(n) < specCap[n] && p.cools <= s.now && (best == "" || s.live(n) < s.live(best)) {
			best = n
		}
	}
	return best
}

func (s specState) acquire(in specInput, out specOutput) (want specOutput) {
	if in.op == "keyed" {
		for id, l := range s.leases {
			switch {
			case l.ended || l.key != in.id:
			case l.body != in.ttl:
				return specOutput{err: ErrKeyReused.Error()}
			default:
				return specOutput{id: id, proxy: l.proxy, expires: l.expires}
			}
		}
	}
	p := s.best()
	if p == "" {
		return specOutput{err: "no_match"}
	}
	l := specLease{proxy: p, attempt: s.proxies[p].attempt, start: s.now, expires: s.now + in.ttl}
	if in.op == "keyed" {
		l.key, l.body = in.id, in.ttl
	}
	s.leases[out.id] = l
	return specOutput{id: out.id, proxy: p, expires: l.expires}
}

func specStep(state, input, output any) (bool, any) {
	s, in, out := state.(specState).clone(), input.(specInput), output.(specOutput)
	l, known := s.leases[in.id]
	p := s.proxies[in.id]
	want := specOutput{}
	switch in.op {
	case "step":
		s.now += in.ttl
		s.advance()
	case "turn":
		p.well = in.ttl > 0
		s.proxies[in.id] = p
	case "replace": // the new instance has not been probed yet
		s.proxies[in.id] = specProxy{attempt: p.attempt + 1}
		for id, l := range s.leases {
			if l.proxy == in.id && !l.ended {
				l.ended, l.forget = true, s.now+specWindow
				s.leases[id] = l
			}
		}
	case "acquire", "wait", "keyed":
		want = s.acquire(in, out)
	case "renew":
		switch {
		case !known || l.released:
			want.err = ErrUnknownLease.Error()
		case l.ended:
			want.err = over
		default:
			l.expires = min(s.now+in.ttl, l.start+specLife)
			s.leases[in.id] = l
			want.expires = l.expires
		}
	case "release":
		if known && !l.ended {
			l.ended, l.released, l.forget = true, true, s.now+specWindow
			s.leases[in.id] = l
		}
	case "report":
		if !known {
			want.err = ErrUnknownLease.Error()
		} else if p := s.proxies[l.proxy]; p.attempt == l.attempt {
			p.cools = s.now + specWindow
			s.proxies[l.proxy] = p
		}
	}
	return out == want, s
}

func TestLinearizable(t *testing.T) {
	model := porcupine.Model{
		Init: func() any {
			return specState{proxies: map[string]specProxy{"a": {1, true, 0}, "b": {1, true, 0}}, leases: map[string]specLease{}}
		},
		Step:  specStep,
		Equal: func(a, b any) bool { return reflect.DeepEqual(a, b) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}
	rounds := 500
	if testing.Short() {
		rounds = 20
	}
	for seed := range rounds {
		history := concurrentHistory(t, uint64(seed))
		if got := porcupine.CheckOperationsTimeout(model, history, time.Minute); got != porcupine.Ok {
			for _, op := range history {
				t.Logf("%d [%d,%d] %s", op.ClientId, op.Call, op.Return, model.DescribeOperation(op.Input, op.Output))
			}
			t.Fatalf("seed %d: the history is %s", seed, got)
		}
	}
}

// histories collects what each client was told and when.
type histories struct {
	f       *fixture
	mu      sync.Mutex
	ops     []porcupine.Operation
	ids     []string
	attempt map[string]int64
	moment  atomic.Int64
	busy    atomic.Int64 // clients that are not done
}

// concurrentHistory lets four clients loose on one ledger; a fifth lets time pass for those who wait.
func concurrentHistory(t *testing.T, seed uint64) []porcupine.Operation {
	h := &histories{ids: []string{"nobody's"}, attempt: map[string]int64{"a": 1, "b": 1}}
	h.f = newFixture(t, func(o *Options) {
		o.CooldownWindow, o.MaxLifetime = specWindow*time.Second, specLife*time.Second
	})
	h.f.put("a", withCap(1))
	h.f.put("b", withCap(2))
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { _ = h.f.ledger.Start(ctx) })
	background.Go(func() {
		for ctx.Err() == nil {
			// Only when everybody waits: a fleet that changes while time passes is not one thing that an operation could see
			// at one instant, and a history of both would have to be judged more leniently.
			if n := h.f.ledger.Waiting(); n > 0 && int64(n) == h.busy.Load() {
				h.do(4, specInput{op: "step", ttl: 1})
			}
			runtime.Gosched()
		}
	})
	h.busy.Store(4)
	together(4, func(client int) {
		defer h.busy.Add(-1)
		rng := rand.New(rand.NewPCG(seed, uint64(client)))
		for range 12 {
			h.mu.Lock()
			in := randomInput(rng, h.ids, seed%2 == 0)
			h.mu.Unlock()
			h.do(client, in)
		}
	})
	stop()
	background.Wait()
	return h.ops
}

func (h *histories) do(client int, in specInput) {
	if in.op == "replace" || in.op == "step" {
		// Told of before they are made, for the clients to stay few: porcupine's work grows with what is open at one time.
		h.mu.Lock()
		defer h.mu.Unlock()
		call := h.moment.Add(1)
		if in.op == "replace" {
			h.attempt[in.id]++
			h.f.fleet.Apply(h.instance(in.id))
		} else {
			h.f.clock.Step(time.Duration(in.ttl) * time.Second)
		}
		h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: specOutput{}, Call: call, Return: h.moment.Add(1)})
		return
	}
	call := h.moment.Add(1)
	out := h.f.apply(in)
	ret := h.moment.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret})
	if out.id != "" {
		h.ids = append(h.ids, out.id)
	}
}

// instance is the proxy as it comes back after a replacement.
func (h *histories) instance(n string) *fleet.Proxy {
	next := *h.f.fleet.Get(name(n))
	next.Attempt = h.attempt[n]
	return &next
}

// randomInput lets either time pass or the fleet change.
func randomInput(rng *rand.Rand, ids []string, timely bool) specInput {
	// Recent leases more often: they are the ones that others race for.
	id := ids[max(rng.IntN(len(ids)), rng.IntN(len(ids)))]
	proxy := []string{"a", "b"}[rng.IntN(2)]
	switch n := rng.IntN(24); {
	case n < 5:
		return specInput{op: "acquire", ttl: 1 + rng.IntN(10)}
	case n < 8:
		return specInput{op: "wait", ttl: 1 + rng.IntN(10)}
	case n < 11:
		return specInput{op: "keyed", id: []string{"k", "l"}[rng.IntN(2)], ttl: 1 + rng.IntN(2)}
	case n < 14:
		return specInput{op: "release", id: id}
	case n < 17:
		return specInput{op: "renew", id: id, ttl: 1 + rng.IntN(20)}
	case n < 18:
		return specInput{op: "report", id: id}
	case timely:
		return specInput{op: "step", ttl: rng.IntN(8)}
	case n < 22:
		return specInput{op: "turn", id: proxy, ttl: rng.IntN(4)} // mostly well
	}
	return specInput{op: "replace", id: proxy}
}

func (f *fixture) apply(in specInput) (out specOutput) {
	ttl := time.Duration(in.ttl) * time.Second
	seconds := func(at time.Time) int { return int(at.Sub(epoch) / time.Second) }
	var err error
	switch in.op {
	case "turn":
		health := fleet.Healthy
		if in.ttl == 0 {
			health = fleet.Unhealthy
		}
		for !f.fleet.SetVerdict(name(in.id), fleet.Verdict{Subject: f.fleet.Get(name(in.id)).Subject(), Health: health, Latency: 10 * time.Millisecond}) {
			continue // replaced in between
		}
	case "acquire", "wait", "keyed":
		req := Request{TTL: ttl, Principal: "crawler"}
		if in.op == "wait" {
			req.Wait = 3 * time.Second
		}
		if in.op == "keyed" {
			req.Key, req.Body = in.id, [32]byte{byte(in.ttl)}
		}
		var l Lease
		if l, err = f.ledger.Acquire(context.Background(), req); err == nil {
			out = specOutput{id: l.ID, proxy: l.Proxy.Key.Name, expires: seconds(l.ExpiresAt)}
		}
	case "renew":
		var l Lease
		if l, err = f.ledger.Renew(in.id, "crawler", ttl); err == nil {
			out.expires = seconds(l.ExpiresAt)
		}
	case "release":
		err = f.ledger.Release(in.id, "crawler")
	case "report":
		err = f.ledger.Report(in.id, "crawler", ResultBanned, "")
	}
	switch refused := (*NoMatchError)(nil); {
	case errors.As(err, &refused):
		out.err = "no_match"
	case errors.Is(err, ErrExpired), errors.Is(err, ErrProxyGone):
		out.err = over
	case err != nil:
		out.err = err.Error()
	}
	return out
}
