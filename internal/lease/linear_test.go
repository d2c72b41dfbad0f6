package lease

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The sequential specification against which concurrent histories are checked: two proxies, a of cap 1 and b of cap 2,
// one principal, a clock that is stepped by an operation of its own. Times are seconds since the start.
const (
	specWindow = 20
	specLife   = 30
)

var specCap = map[string]int{"a": 1, "b": 2}

type specLease struct {
	proxy           string
	start, expires  int
	ended, released bool
	forget          int
}

type specState struct {
	now    int
	leases map[string]specLease
	cools  map[string]int
}

type specInput struct {
	op  string // acquire renew release report step
	id  string
	ttl int
}

type specOutput struct {
	err     string
	id      string
	proxy   string
	expires int
}

func (s specState) clone() specState {
	return specState{s.now, maps.Clone(s.leases), maps.Clone(s.cools)}
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

// best is the proxy with the fewest live leases among those that have room and do not rest; a before b.
func (s specState) best() string {
	best := ""
	for _, p := range []string{"a", "b"} {
		if s.live(p) < specCap[p] && s.cools[p] <= s.now && (best == "" || s.live(p) < s.live(best)) {
			best = p
		}
	}
	return best
}

func specStep(state, input, output any) (bool, any) {
	s, in, out := state.(specState).clone(), input.(specInput), output.(specOutput)
	if in.op == "step" {
		s.now += in.ttl
		s.advance()
		return true, s
	}
	l, known := s.leases[in.id]
	want := specOutput{}
	switch in.op {
	case "acquire":
		if p := s.best(); p != "" {
			want = specOutput{id: out.id, proxy: p, expires: s.now + in.ttl}
			s.leases[out.id] = specLease{proxy: p, start: s.now, expires: want.expires}
		} else {
			want.err = "no_match"
		}
	case "renew":
		switch {
		case !known || l.released:
			want.err = ErrUnknownLease.Error()
		case l.ended:
			want.err = ErrExpired.Error()
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
		} else {
			s.cools[l.proxy] = s.now + specWindow
		}
	}
	return out == want, s
}

func TestLinearizable(t *testing.T) {
	model := porcupine.Model{
		Init:  func() any { return specState{leases: map[string]specLease{}, cools: map[string]int{}} },
		Step:  specStep,
		Equal: func(a, b any) bool { return reflect.DeepEqual(a, b) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%+v -> %+v", in, out)
		},
	}
	rounds := 150
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

// concurrentHistory lets four clients loose on one ledger and returns what each was told and when.
func concurrentHistory(t *testing.T, seed uint64) []porcupine.Operation {
	f := newFixture(t, func(o *Options) {
		o.CooldownWindow, o.MaxLifetime = specWindow*time.Second, specLife*time.Second
	})
	f.put("a", withCap(1))
	f.put("b", withCap(2))
	var mu sync.Mutex
	var history []porcupine.Operation
	ids := []string{"nobody's"}
	var moment atomic.Int64
	together(4, func(client int) {
		rng := rand.New(rand.NewPCG(seed, uint64(client)))
		for range 12 {
			mu.Lock()
			in := randomInput(rng, ids)
			mu.Unlock()
			call := moment.Add(1)
			out := f.apply(in)
			ret := moment.Add(1)
			mu.Lock()
			history = append(history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret})
			if out.id != "" {
				ids = append(ids, out.id)
			}
			mu.Unlock()
		}
	})
	return history
}

func randomInput(rng *rand.Rand, ids []string) specInput {
	// Recent leases more often: they are the ones that others race for.
	id := ids[max(rng.IntN(len(ids)), rng.IntN(len(ids)))]
	switch n := rng.IntN(20); {
	case n < 8:
		return specInput{op: "acquire", ttl: 1 + rng.IntN(10)}
	case n < 11:
		return specInput{op: "release", id: id}
	case n < 14:
		return specInput{op: "renew", id: id, ttl: 1 + rng.IntN(20)}
	case n < 15:
		return specInput{op: "report", id: id}
	}
	return specInput{op: "step", ttl: rng.IntN(8)}
}

func (f *fixture) apply(in specInput) (out specOutput) {
	ttl := time.Duration(in.ttl) * time.Second
	seconds := func(at time.Time) int { return int(at.Sub(epoch) / time.Second) }
	var err error
	switch in.op {
	case "step":
		f.clock.Step(ttl)
	case "acquire":
		var l Lease
		if l, err = f.ledger.Acquire(context.Background(), Request{TTL: ttl, Principal: "crawler"}); err == nil {
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
	if refused := (*NoMatchError)(nil); errors.As(err, &refused) {
		out.err = "no_match"
	} else if err != nil {
		out.err = err.Error()
	}
	return out
}
