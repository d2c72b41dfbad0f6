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

// refusedRest is for how long a host that does not let us in is not asked again. Guards against guessing (fail2ban) count
// tries.
const refusedRest = 30 * time.Second

// maxAgentCalls bounds the guests of a host that are asked for their address at a time: each holds a worker of the daemon's
// until the guest answers, and guests are not to be trusted.
const maxAgentCalls = 3

// host is one hypervisor.
type host struct {
	shared
	config HostConfig
	images *baseimage.Cache
	agents agents
}

// reached says how a host is reached according to its configuration.
func reached(c HostConfig) func(ctx context.Context) (net.Conn, error) {
	t := dial.Target{Address: c.Address, User: c.User, KeyFile: c.KeyFile, KnownHostsFile: c.KnownHostsFile, Socket: c.Socket}
	return t.Dial
}

func newHost(c HostConfig, s Seams, clk session.Clock, slots chan struct{}, claims *claims) *host {
	h := &host{config: c}
	opts := session.Options{
		Name: c.Name, Dial: reached(c), UUID: c.HostUUID, Clock: clk,
		Identified: func(uuid string) error { return claims.take(uuid, c.Name) },
		Rest: func(err error) time.Duration {
			if e, ok := errors.AsType[*dial.Error](err); ok && refusals[e.Reason] {
				return refusedRest
			}
			return 0
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

// agents are the guests that are being asked for something.
type agents struct {
	mu   sync.Mutex
	busy map[uuid.UUID]struct{}
}

// take reserves the right to ask a guest. There is none while it has not answered the last time, or too many others have not.
func (a *agents) take(id uuid.UUID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, asked := a.busy[id]; asked || len(a.busy) >= maxAgentCalls {
		return false
	}
	if a.busy == nil {
		a.busy = map[uuid.UUID]struct{}{}
	}
	a.busy[id] = struct{}{}
	return true
}

func (a *agents) release(id uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.busy, id)
}
