package kvm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/digitalocean/go-libvirt"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/session"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// Reasons of a host's status besides the shared ones: each has a cure of its own. Those of package dial come on top.
const (
	CheckHostMismatch    = "HostMismatch"
	CheckPoolNotFound    = "PoolNotFound"
	CheckPoolUnusable    = "PoolUnusable"
	CheckNetworkNotFound = "NetworkNotFound"
)

// Check asks every host, side by side, for what instances need of it: its versions, free memory, domains, the pool with its
// room, and the network. A host that does not answer in time does not hold up the others, and its connection stays for those
// who use it.
func (p *Provider) Check(ctx context.Context) []provider.TargetStatus {
	ctx, cancel := p.bound(p.calling(ctx, "check", ""))
	defer cancel()
	hosts := sorted(p.hosts)
	out := make([]provider.TargetStatus, len(hosts))
	var wg sync.WaitGroup
	for i, name := range hosts {
		wg.Go(func() { out[i] = p.hosts[name].check(placed(ctx, place{host: name})) })
	}
	wg.Wait()
	return out
}

func (h *host) check(ctx context.Context) provider.TargetStatus {
	began := time.Now()
	s := provider.TargetStatus{Target: h.config.Name, Details: map[string]string{}}
	version, err := ask(ctx, h, "ConnectGetLibVersion", session.API.ConnectGetLibVersion)
	s.Latency = time.Since(began)
	if err == nil {
		s.Details["libvirt"] = dotted(version)
		err = h.inspect(ctx, s.Details)
	}
	if err != nil {
		s.Reason, s.Message = checkReason(ctx, err), message.Clean(err.Error())
		logger(ctx).V(1).Info("host not ready", "reason", s.Reason, "error", s.Message)
		return s
	}
	s.Ready, s.Reason = true, provider.CheckReachable
	logger(ctx).V(2).Info("host ready")
	return s
}

// inspect fills in details and returns the first thing that is wrong.
func (h *host) inspect(ctx context.Context, details map[string]string) error {
	qemu, err := ask(ctx, h, "ConnectGetVersion", session.API.ConnectGetVersion)
	if err != nil {
		return err
	}
	details["hypervisor"] = dotted(qemu)
	memory, err := h.memory(ctx)
	if err != nil {
		return err
	}
	details["memoryTotalMiB"] = strconv.FormatUint(memory["total"]>>10, 10)
	details["memoryFreeMiB"] = strconv.FormatUint((memory["free"]+memory["buffers"]+memory["cached"])>>10, 10)
	all, err := h.domains(ctx)
	if err != nil {
		return err
	}
	details["domains"] = strconv.Itoa(len(all))
	pl, err := h.pool(ctx)
	if err != nil {
		return err
	}
	capacity, available, err := h.room(ctx, h, pl.StoragePool)
	if err != nil {
		return err
	}
	details["poolCapacityGiB"] = strconv.FormatUint(capacity>>30, 10)
	details["poolFreeGiB"] = strconv.FormatUint(available>>30, 10)
	if h.config.Network == "" {
		return nil
	}
	return h.hasNetwork(ctx)
}

func (h *host) hasNetwork(ctx context.Context) error {
	return tell(ctx, h, "NetworkLookupByName", func(api session.API) error {
		_, err := api.NetworkLookupByName(h.config.Network)
		return err
	})
}

// dotted writes a version as libvirt counts it (major*1000000 + minor*1000 + release).
func dotted(v uint64) string { return fmt.Sprintf("%d.%d.%d", v/1000000, v/1000%1000, v%1000) }

// checkReason puts a failed check into one word.
func checkReason(ctx context.Context, err error) string {
	if e, ok := errors.AsType[*dial.Error](err); ok {
		if e.Reason == dial.Timeout {
			return provider.CheckTimeout
		}
		return e.Reason
	}
	if _, ok := errors.AsType[*session.MismatchError](err); ok {
		return CheckHostMismatch
	}
	if _, ok := errors.AsType[*sameHostError](err); ok {
		return CheckHostMismatch
	}
	if _, ok := errors.AsType[*poolError](err); ok {
		return CheckPoolUnusable
	}
	if _, ok := errors.AsType[*noAnswerError](err); ok || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		return provider.CheckTimeout
	}
	if session.Lost(err) || session.Unopened(err) {
		return provider.CheckUnreachable
	}
	if e, ok := errors.AsType[libvirt.Error](err); ok {
		switch libvirt.ErrorNumber(e.Code) { //nolint:exhaustive,gosec // an enumeration, of which these are told apart
		case libvirt.ErrNoStoragePool:
			return CheckPoolNotFound
		case libvirt.ErrNoNetwork:
			return CheckNetworkNotFound
		case libvirt.ErrAuthFailed, libvirt.ErrAuthCancelled, libvirt.ErrAuthUnavailable:
			return provider.CheckUnauthorized
		case libvirt.ErrAccessDenied, libvirt.ErrOperationDenied:
			return provider.CheckForbidden
		}
	}
	return provider.CheckAPIError
}
