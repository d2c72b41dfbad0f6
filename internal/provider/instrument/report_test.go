package instrument_test

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/egress-proxies/egress-proxies-operator/internal/provider"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/instrument"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm"
	"github.com/egress-proxies/egress-proxies-operator/internal/provider/kvm/dial"
)

// statuses returns the results of a check: targets and reasons in turn, where no reason stands for Ready.
func statuses(targetsAndReasons ...string) (out []provider.TargetStatus) {
	for i := 0; i < len(targetsAndReasons); i += 2 {
		s := provider.TargetStatus{Target: targetsAndReasons[i], Reason: targetsAndReasons[i+1], Message: "as it says"}
		if s.Reason == "" {
			s.Ready, s.Reason, s.Message = true, provider.CheckReachable, ""
		}
		out = append(out, s)
	}
	return out
}

func TestWhichChecksShutAGate(t *testing.T) {
	deniedBy := []string{
		provider.CheckUnauthorized, provider.CheckForbidden, dial.SSHAuthFailed, dial.HostKeyUnknown, dial.HostKeyMismatch,
		dial.HostKeyRevoked, dial.KeyUnreadable, dial.KnownHostsUnreadable, kvm.CheckHostMismatch,
	}
	silentBy := []string{provider.CheckUnreachable, provider.CheckTimeout, dial.Unreachable, dial.Timeout, dial.SSHHandshakeFailed, dial.LibvirtUnreachable}
	neither := []string{provider.CheckAPIError, kvm.CheckPoolNotFound, kvm.CheckPoolUnusable, kvm.CheckNetworkNotFound, "SomethingNew"}
	for class, reasons := range map[error][]string{provider.ErrDenied: deniedBy, provider.ErrTransient: silentBy, nil: neither} {
		for _, reason := range reasons {
			t.Run(reason, func(t *testing.T) {
				gating(t, func(t *testing.T, z *zoned, p provider.Provider, o *openings) {
					instrument.Report(p, statuses("a", reason))
					err := get(t, p, "a/x")
					if class == nil {
						expectReason(t, "a call", err, "")
						return
					}
					wait := map[error]time.Duration{provider.ErrDenied: time.Minute, provider.ErrTransient: 10 * time.Second}[class]
					expectShut(t, "a call", err, class, wait, "target a", reason, "as it says")
					expectReason(t, "another target", get(t, p, "b/x"), "")
					if z.made("a") != 0 {
						t.Error("a call reached it")
					}
					// The same again leaves the canary its turn.
					pass(wait / 2)
					instrument.Report(p, statuses("a", reason))
					expectShut(t, "half the wait later", get(t, p, "a/x"), class, wait/2)
					instrument.Report(p, statuses("a", provider.CheckAPIError))
					expectShut(t, "after an answer that is none", get(t, p, "a/x"), class, wait/2)
					o.expect(t, "shut")
					instrument.Report(p, statuses("a", ""))
					o.expect(t, "Ready", "exits/a")
					expectReason(t, "Ready", get(t, p, "a/x"), "")
				})
			})
		}
	}
}

// A check that began before a gate was shut does not open it, and one during which a call was answered does not shut it.
func TestAnOldCheckDoesNotCount(t *testing.T) {
	gating(t, func(t *testing.T, z *zoned, p provider.Provider, o *openings) {
		report := instrument.Begin(p)
		z.fail("a", denied())
		_ = get(t, p, "a/x")
		report(statuses("a", ""))
		expectShut(t, "after an old check", get(t, p, "a/x"), provider.ErrDenied, time.Minute)
		o.expect(t, "after an old check")

		z.fail("a", nil)
		report = instrument.Begin(p)
		pass(time.Minute)
		expectReason(t, "the canary", get(t, p, "a/x"), "")
		report(statuses("a", provider.CheckUnauthorized))
		expectReason(t, "after an old check", get(t, p, "a/x"), "")
		report = instrument.Begin(p)
		_ = get(t, p, "a/x")
		report(statuses("a", provider.CheckTimeout))
		expectReason(t, "after an old check of a target that answers", get(t, p, "a/x"), "")
	})
}

func TestAProviderWithoutTargetsIsOneTargetToChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zoned{plain: newPlain(nil), held: map[string]chan struct{}{}, calls: map[string]int{}, errs: map[string]error{}}
		o := &openings{}
		p := instrument.WithGuard(struct{ provider.Provider }{z}, "exits", clock.RealClock{}, instrument.OnOpen(o.note))
		for _, s := range [][]provider.TargetStatus{
			statuses("my-project", provider.CheckForbidden), statuses("p", "", "q", provider.CheckForbidden, "r", provider.CheckTimeout), statuses("p", provider.CheckForbidden, "q", ""),
		} {
			instrument.Report(p, s)
			expectShut(t, "a call", get(t, p, "a/x"), provider.ErrDenied, 0, "the provider refuses", provider.CheckForbidden)
			instrument.Report(p, statuses("my-project", ""))
			o.expect(t, "Ready", "exits/")
			expectReason(t, "Ready", get(t, p, "a/x"), "")
		}
		instrument.Report(newPlain(nil), statuses("a", provider.CheckForbidden)) // no guard, nothing happens
	})
}
