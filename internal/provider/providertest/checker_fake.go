package providertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/message"
)

// OpCheck is the step at which a Checked provider asks a zone; the Ref that a hook sees has an ID in that zone.
const OpCheck = "check"

// Checked is a Stateful that can be checked. Each zone is a target.
type Checked struct{ Watching }

var (
	_ provider.Checker  = Checked{}
	_ provider.Targeter = Checked{}
)

// Checked returns such a provider on b, as Provider does.
func (b *Backend) Checked(name string, owner provider.Owner, window provider.Window) Checked {
	return Checked{Watching{Updating{b.Provider(name, owner, window)}}}
}

// Target returns the zone in which the ID lies, "" for an ID of no zone.
func (c Checked) Target(ref provider.Ref) string { return c.target(ref) }

// Check implements provider.Checker.
func (c Checked) Check(ctx context.Context) []provider.TargetStatus { return c.checkZones(ctx) }

func (s *Stateful) target(ref provider.Ref) string {
	zone, _ := s.backend.zoneOf(ref.ID)
	return zone
}

// checkZones asks all zones side by side.
func (s *Stateful) checkZones(ctx context.Context) []provider.TargetStatus {
	zones := slices.Sorted(slices.Values(s.backend.opts.Zones))
	out := make([]provider.TargetStatus, len(zones))
	var wg sync.WaitGroup
	for i, zone := range zones {
		wg.Go(func() { out[i] = s.checkZone(ctx, zone) })
	}
	wg.Wait()
	return out
}

func (s *Stateful) checkZone(ctx context.Context, zone string) provider.TargetStatus {
	st := provider.TargetStatus{Target: zone, Details: map[string]string{}}
	began := time.Now()
	machines := 0
	err := s.backend.call(ctx, OpCheck, provider.Ref{ID: "zones/" + zone + "/instances/check"}, zone, func(time.Time, Fault) error {
		for id := range s.backend.machines {
			if strings.HasPrefix(id, "zones/"+zone+"/") {
				machines++
			}
		}
		return nil
	})
	st.Latency = time.Since(began)
	switch {
	case err == nil:
		st.Ready, st.Reason = true, provider.CheckReachable
		st.Details["instances"] = strconv.Itoa(machines)
		return st
	case errors.Is(err, provider.ErrDenied):
		st.Reason = provider.CheckUnauthorized
	case ctx.Err() != nil, errors.Is(err, errTimeout):
		st.Reason = provider.CheckTimeout
	case errors.Is(err, errUnreachable):
		st.Reason = provider.CheckUnreachable
	default:
		st.Reason = provider.CheckAPIError
	}
	st.Message = message.Clean(err.Error())
	return st
}

// FakeChecker is a Fake that can be checked: CheckFunc answers, where it is set, else the zones of the Fake's backend are
// asked.
type FakeChecker struct {
	*Fake
	CheckFunc func(ctx context.Context) []provider.TargetStatus
}

var (
	_ provider.Checker  = (*FakeChecker)(nil)
	_ provider.Targeter = (*FakeChecker)(nil)
)

// Check implements provider.Checker.
func (f *FakeChecker) Check(ctx context.Context) []provider.TargetStatus {
	if f.CheckFunc != nil {
		return f.CheckFunc(ctx)
	}
	return f.base.checkZones(ctx)
}

// Target returns the zone in which the ID lies, "" for an ID of no zone.
func (f *FakeChecker) Target(ref provider.Ref) string { return f.base.target(ref) }
