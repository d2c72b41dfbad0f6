package kvm

import (
	"context"
	"errors"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/baseimage"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
)

// refusedRest is for how long a host that does not let us in, or is another one than it should be, is not asked again. Guards
// against guessing (fail2ban) count tries.
const refusedRest = 30 * time.Second

// maxAgentCalls bounds the guests of a host that are asked for their address at a time: each holds a worker of the daemon's
// until the guest answers, and guests are not to be trusted.
const maxAgentCalls = 3

// host is one hypervisor.
type host struct {
	shared
	config HostConfig
	images *baseimage.Cache
	agents *agents
	seeds  chan struct{}
}

// reached says how a host is reached according to its configuration.
func reached(c HostConfig) func(ctx context.Context) (net.Conn, error) {
	t := dial.Target{Address: c.Address, User: c.User, KeyFile: c.KeyFile, KnownHostsFile: c.KnownHostsFile, Socket: c.Socket}
	return t.Dial
}

func newHost(c HostConfig, s Seams, clk session.Clock, slots chan struct{}, claims *claims) *host {
	h := &host{config: c, agents: newAgents(), seeds: make(chan struct{}, 1)}
	opts := session.Options{
		Name: c.Name, Dial: reached(c), UUID: c.HostUUID, Clock: clk,
		Identified: func(uuid string) error { return claims.take(uuid, c.Name) },
		Rest: func(err error) time.Duration {
			e, failed := errors.AsType[*dial.Error](err)
			_, another := errors.AsType[*session.MismatchError](err)
			_, twice := errors.AsType[*sameHostError](err)
			switch {
			case failed && e.Reason == dial.Timeout || errors.Is(err, context.DeadlineExceeded):
				return silentRest
			case failed && refusals[e.Reason], another, twice:
				return refusedRest
			}
			return 0 // libvirt's own refusals count nobody's tries
		},
	}
	if s.Dial != nil {
		opts.Dial = s.Dial(c)
	}
	if s.Speak != nil {
		opts.Speak = s.Speak(c)
	}
	h.shared.host = session.New(opts)
	h.images = newCache(h, clk, s.Client, slots)
	return h
}

func (h *host) close() {
	h.images.Close()
	h.shared.host.Close()
}

// claims are the hosts behind the names of an entry.
type claims struct {
	mu   sync.Mutex
	name map[string]string // by the host's UUID
}

// take refuses a host that goes by another name already: its domains would be listed under both, and one of the two taken for
// surplus.
func (c *claims) take(uuid, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if uuid == "" {
		return nil
	}
	if other, taken := c.name[uuid]; taken && other != name {
		return &sameHostError{other}
	}
	maps.DeleteFunc(c.name, func(_, n string) bool { return n == name }) // it may have been given another one
	if c.name == nil {
		c.name = map[string]string{}
	}
	c.name[uuid] = name
	return nil
}

// sameHostError says that two names of an entry lead to one host.
type sameHostError struct{ other string }

func (e *sameHostError) Error() string {
	return "the host's UUID is that of host " + e.other + " of this entry; if they are two, give each its own host_uuid in libvirtd.conf"
}

func (e *sameHostError) Unwrap() error { return provider.ErrDenied }

// agents are the guests of a host that are being asked for something.
type agents struct {
	places chan struct{}

	mu   sync.Mutex
	busy map[uuid.UUID]struct{}
}

func newAgents() *agents {
	return &agents{places: make(chan struct{}, maxAgentCalls), busy: map[uuid.UUID]struct{}{}}
}

var (
	// errAsked: the guest has not answered the last time yet, which is as good as having no agent.
	errAsked = errors.New("the guest's agent has not answered the last call yet")
	// errCrowded: others hold all places. That says nothing of this guest.
	errCrowded = errors.New("too many guests are being asked already")
)

// take reserves the right to ask a guest, and waits for it until patience ends. The error is errAsked or errCrowded.
func (a *agents) take(patience context.Context, id uuid.UUID) error {
	if !a.mark(id) {
		return errAsked
	}
	select {
	case a.places <- struct{}{}:
		return nil
	default:
	}
	select {
	case a.places <- struct{}{}:
		return nil
	case <-patience.Done():
		a.unmark(id)
		return errCrowded
	}
}

func (a *agents) release(id uuid.UUID) {
	<-a.places
	a.unmark(id)
}

func (a *agents) mark(id uuid.UUID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, asked := a.busy[id]
	a.busy[id] = struct{}{}
	return !asked
}

func (a *agents) unmark(id uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, id)
}
